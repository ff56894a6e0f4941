// SPDX-License-Identifier: GPL-3.0-or-later
// Packages made here, in a folder of their own: the manifest's refusals, files against their records, resident weights
// on the ref device.
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/gpu.h"
#include "tests/harness.h"
#include "engine/files/safetensors.h"
#include "engine/files/verify.h"
#include "engine/walk/weights.h"

static char folder[] = "/tmp/moechat-package-XXXXXX";

enum { HIDDEN = 64, INTER = 96, MOE_INTER = 32, VOCAB = 50, EXPERTS = 4, BLOB = 8192, LAYERS = 2 };

static const char config[] =
    "{'model_type':'deepseek_v3','vocab_size':50,'hidden_size':64,'intermediate_size':96,'moe_intermediate_size':32,"
    "'num_hidden_layers':2,'num_attention_heads':2,'num_key_value_heads':2,'n_shared_experts':1,'n_routed_experts':4,"
    "'routed_scaling_factor':2.5,'kv_lora_rank':32,'q_lora_rank':32,'qk_rope_head_dim':4,'v_head_dim':16,"
    "'qk_nope_head_dim':8,'n_group':2,'topk_group':1,'num_experts_per_tok':2,'first_k_dense_replace':1,"
    "'max_position_embeddings':512,'rms_norm_eps':1e-5,'bos_token_id':1,'eos_token_id':2}";

// What the resident file gets: names with dtype and dims (cols 0: a vector).
struct entry {
    char name[96];
    const char *dtype;
    unsigned rows, cols;
};

struct making {
    struct entry entries[80];
    size_t count;
    bool sparse; // the data are zeros, but for the last two bytes of each tensor: its index
    char manifest[8192];
};

static const char *in_folder(const char *name)
{
    static char paths[4][96];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void add(struct making *m, const char *name, const char *dtype, unsigned rows, unsigned cols)
{
    struct entry *entry = &m->entries[m->count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->dtype = dtype;
    entry->rows = rows;
    entry->cols = cols;
}

static void add_matrix(struct making *m, const char *stem, unsigned out, unsigned in) // 4 bits, groups of 32
{
    char name[96];
    snprintf(name, sizeof name, "%s.weight", stem);
    add(m, name, "U32", out, in / 8);
    snprintf(name, sizeof name, "%s.scales", stem);
    add(m, name, "BF16", out, in / 32);
    snprintf(name, sizeof name, "%s.biases", stem);
    add(m, name, "BF16", out, in / 32);
}

static void add_layer(struct making *m, unsigned layer)
{
    static const struct {
        const char *name;
        unsigned out, in;
    } matrices[] = {
        {"self_attn.q_a_proj", 32, HIDDEN},
        {"self_attn.q_b_proj", 24, 32},
        {"self_attn.kv_a_proj_with_mqa", 36, HIDDEN},
        {"self_attn.kv_b_proj", 48, 32},
        {"self_attn.o_proj", HIDDEN, 32},
        {"mlp.gate_proj", INTER, HIDDEN},
        {"mlp.up_proj", INTER, HIDDEN},
        {"mlp.down_proj", HIDDEN, INTER},
        {"mlp.shared_experts.gate_proj", MOE_INTER, HIDDEN},
        {"mlp.shared_experts.up_proj", MOE_INTER, HIDDEN},
        {"mlp.shared_experts.down_proj", HIDDEN, MOE_INTER},
        {"mlp.gate", EXPERTS, HIDDEN},
    };
    char name[96];
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        if (i >= 5 && (i < 8) == (layer > 0))
            continue; // layer 0 is dense
        snprintf(name, sizeof name, "model.layers.%u.%s", layer, matrices[i].name);
        add_matrix(m, name, matrices[i].out, matrices[i].in);
    }
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm", "self_attn.q_a_layernorm",
                                        "self_attn.kv_a_layernorm"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "model.layers.%u.%s.weight", layer, norms[i]);
        add(m, name, "BF16", i < 2 ? HIDDEN : 32, 0);
    }
    if (layer > 0) {
        snprintf(name, sizeof name, "model.layers.%u.mlp.gate.e_score_correction_bias", layer);
        add(m, name, "F32", EXPERTS, 0);
    }
}

static void add_all(struct making *m)
{
    memset(m, 0, sizeof *m);
    add_matrix(m, "model.embed_tokens", VOCAB, HIDDEN);
    add_matrix(m, "lm_head", VOCAB, HIDDEN);
    add(m, "model.norm.weight", "BF16", HIDDEN, 0);
    for (unsigned layer = 0; layer < LAYERS; layer++)
        add_layer(m, layer);
}

static struct entry *entry_of(struct making *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->entries[i].name, name) == 0)
            return &m->entries[i];
    return NULL;
}

// Writes text (' for ") or, when text is NULL, `bytes` bytes that never repeat in step with a power of two.
static void write_file(const char *name, const char *text, size_t bytes)
{
    FILE *file = fopen(in_folder(name), "wb");
    for (const char *c = text; c && *c; c++)
        fputc(*c == '\'' ? '"' : *c, file);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(i % 251), file);
    fclose(file);
}

static void hex_of(const unsigned char *bytes, size_t count, char hex[65])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_Digest(bytes, count, digest, NULL, EVP_sha256(), NULL);
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static size_t hash_file(const char *name, char hex[65]) // of the first MiB: larger files are not verified here
{
    static unsigned char bytes[1 << 20];
    struct stat status;
    FILE *file = fopen(in_folder(name), "rb");
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    hex_of(bytes, count, hex);
    return stat(in_folder(name), &status) == 0 ? (size_t)status.st_size : 0;
}

static unsigned long bytes_of(const struct entry *e)
{
    return e->rows * (e->cols ? e->cols : 1) * (strcmp(e->dtype, "BF16") == 0 ? 2UL : 4UL);
}

static void write_data(const struct making *m, FILE *file)
{
    unsigned long total = 0;
    for (size_t i = 0; i < m->count; i++) {
        total += bytes_of(&m->entries[i]);
        if (m->sparse) {
            fseek(file, (long)bytes_of(&m->entries[i]) - 2, SEEK_CUR);
            fputc((int)i, file);
            fputc((int)i, file);
        }
    }
    for (unsigned long i = 0; !m->sparse && i < total; i++)
        fputc((int)(i % 251), file);
}

static void write_resident(const struct making *m)
{
    char header[16384];
    size_t used = 1;
    unsigned long offset = 0;
    header[0] = '{';
    for (size_t i = 0; i < m->count; i++) {
        const struct entry *e = &m->entries[i];
        unsigned long bytes = bytes_of(e);
        char dims[32];
        snprintf(dims, sizeof dims, e->cols ? "%u,%u" : "%u", e->rows, e->cols);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s'%s':{'dtype':'%s','shape':[%s],'data_offsets':[%lu,%lu]}", i ? "," : "", e->name,
                                 e->dtype, dims, offset, offset + bytes);
        offset += bytes;
    }
    header[used++] = '}';
    FILE *file = fopen(in_folder("resident.safetensors"), "wb");
    for (int i = 0; i < 8; i++)
        fputc((int)(used >> (8 * i) & 255), file);
    for (size_t i = 0; i < used; i++)
        fputc(header[i] == '\'' ? '"' : header[i], file);
    write_data(m, file);
    fclose(file);
}

static void write_manifest(struct making *m)
{
    char resident[65];
    char experts[65];
    char tokenizer[65];
    char both[129];
    char fingerprint[65];
    size_t resident_bytes = hash_file("resident.safetensors", resident);
    size_t experts_bytes = hash_file("layer-001.experts", experts);
    size_t tokenizer_bytes = hash_file("tokenizer.model", tokenizer);
    snprintf(both, sizeof both, "%s%s", resident, experts);
    hex_of((const unsigned char *)both, 128, fingerprint);
    snprintf(m->manifest, sizeof m->manifest,
             "{'format':'moechat-model','version':1,'name':'a name','config':%s,"
             "'resident':{'file':'resident.safetensors','bytes':%zu,'sha256':'%s'},"
             "'experts':{'alignment':4096,'blob_bytes':8192,'count':4,'parts':["
             "{'name':'gate_proj.weight','dtype':'U32','shape':[32,8],'offset':0,'bytes':1024},"
             "{'name':'gate_proj.scales','dtype':'BF16','shape':[32,2],'offset':1024,'bytes':128},"
             "{'name':'gate_proj.biases','dtype':'BF16','shape':[32,2],'offset':1152,'bytes':128},"
             "{'name':'up_proj.weight','dtype':'U32','shape':[32,8],'offset':1280,'bytes':1024},"
             "{'name':'up_proj.scales','dtype':'BF16','shape':[32,2],'offset':2304,'bytes':128},"
             "{'name':'up_proj.biases','dtype':'BF16','shape':[32,2],'offset':2432,'bytes':128},"
             "{'name':'down_proj.weight','dtype':'U32','shape':[64,8],'offset':2560,'bytes':2048},"
             "{'name':'down_proj.scales','dtype':'BF16','shape':[64,1],'offset':4608,'bytes':128},"
             "{'name':'down_proj.biases','dtype':'BF16','shape':[64,1],'offset':4736,'bytes':128}],"
             "'layers':[{'layer':1,'file':'layer-001.experts','bytes':%zu,'sha256':'%s'}]},"
             "'tokenizer':{'type':'sentencepiece','file':'tokenizer.model','bytes':%zu,'sha256':'%s'},"
             "'template':'moechat-demo','weights_fingerprint':'%s'}",
             config, resident_bytes, resident, experts_bytes, experts, tokenizer_bytes, tokenizer, fingerprint);
    write_file("model.json", m->manifest, 0);
}

static void make_package(struct making *m)
{
    add_all(m);
    write_resident(m);
    write_file("layer-001.experts", NULL, EXPERTS * BLOB);
    write_file("tokenizer.model", NULL, 100);
    write_manifest(m);
}

static void a_good_package_opens(struct harness *t)
{
    struct making m;
    struct package p;
    struct moe_err err = {.text = ""};
    make_package(&m);
    if (!CHECK_EQ(t, package_open(folder, &p, &err), MOE_OK)) {
        printf("    %s\n", err.text);
        return;
    }
    CHECK_STR(t, p.directory, folder);
    CHECK_STR(t, p.name, "a name");
    CHECK_STR(t, p.template_name, "moechat-demo");
    CHECK_STR(t, p.tokenizer_type, "sentencepiece");
    CHECK_STR(t, p.tokenizer.path, in_folder("tokenizer.model"));
    const struct expert_layout *experts = package_experts(&p, 1);
    CHECK_EQ(t, experts->blob_bytes, BLOB);
    CHECK_EQ(t, package_slot_bytes(&p), BLOB);
    CHECK_EQ(t, kind_bits(experts->down.kind) * 1000 + experts->down.group_size, 8032);
    CHECK_EQ(t, experts->down.weight + experts->down.scales + experts->down.biases, 2560 + 4608 + 4736);
    CHECK_EQ(t, experts->down.in_dim * 1000 + experts->down.out_dim, 32064);
    CHECK_EQ(t, experts->gate.in_dim * 1000 + experts->gate.out_dim, 64032);
    CHECK_EQ(t, experts->up.weight, 1280);
    CHECK_EQ(t, p.layers[0].n_spans, 0);
    CHECK_EQ(t, p.n_files, 1);
    CHECK_STR(t, p.files[0].path, in_folder("layer-001.experts"));
    CHECK_EQ(t, p.files[0].bytes, EXPERTS * BLOB);
    struct expert_span spans[MAX_EXPERT_SPANS];
    CHECK_EQ(t, package_spans(&p, 1, 3, spans), 1);
    CHECK(t, spans[0].file == 0 && spans[0].offset == 3 * BLOB && spans[0].bytes == BLOB && spans[0].at == 0);
    package_release(&p);
}

static void a_package_describes_itself(struct harness *t)
{
    struct making m;
    struct moe_description d;
    make_package(&m);
    CHECK_EQ(t, moe_inspect(folder, &d, NULL), MOE_OK);
    CHECK_STR(t, d.tokenizer_file, in_folder("tokenizer.model"));
    CHECK_EQ(t, d.n_moe_layers, 1);
    uint64_t attention = 64 * 32 + 32 * 24 + 32 + 64 * 36 + 32 + 32 * 48 + 32 * 64;
    uint64_t all = 2 * (attention + 2 * 64) + 64 + 2 * 50 * 64 + 3 * 64 * 96 + 64 * 4 + 3 * 64 * 32 * (1 + 4);
    CHECK_EQ(t, d.parameters, all);
    CHECK_EQ(t, d.active_parameters, all - 3 * 64 * 32 * 2 - 50 * 64);
    struct tensor_file resident;
    CHECK_EQ(t, safetensors_open(in_folder("resident.safetensors"), &resident, NULL), MOE_OK);
    uint64_t active = 2 * BLOB; // top_k experts; then all that is resident but the embedding
    for (size_t i = 0; i < resident.count; i++)
        active += resident.tensors[i].bytes;
    active -= tensor_file_find(&resident, "model.embed_tokens.weight")->bytes;
    active -= 2 * tensor_file_find(&resident, "model.embed_tokens.scales")->bytes;
    CHECK_EQ(t, d.active_bytes, active);
    tensor_file_release(&resident);
    CHECK_EQ(t, d.expert_bytes, BLOB);
    CHECK_EQ(t, d.all_experts_bytes, EXPERTS * BLOB);
    CHECK_EQ(t, d.kv_row_bytes_f32, 2 * 36 * 4);
    CHECK_EQ(t, d.n_eos * 100 + (unsigned)d.eos_token_ids[0] * 10 + (unsigned)d.bos_token_id, 121);
}

static void it_tells_what_its_maker_suggests(struct harness *t)
{
    struct making m;
    struct moe_description d;
    struct moe_err err = {.text = ""};
    make_package(&m);
    CHECK_EQ(t, moe_inspect(folder, &d, NULL), MOE_OK);
    CHECK_EQ(t, d.suggestion.given, 0);
    write_file("generation_config.json", "{'temperature': 0.3, 'top_k': 5}", 0);
    CHECK_EQ(t, moe_inspect(folder, &d, NULL), MOE_OK);
    CHECK_EQ(t, d.suggestion.given, MOE_SUGGESTS_TEMPERATURE | MOE_SUGGESTS_TOP_K);
    CHECK(t, d.suggestion.temperature == 0.3 && d.suggestion.top_k == 5);
    write_file("generation_config.json", "{'temperature': 1e9}", 0);
    CHECK_EQ(t, moe_inspect(folder, &d, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "generation_config.json: temperature") != NULL);
    remove(in_folder("generation_config.json"));
}

// The manifest with the first `from` replaced; both with ' for ".
static size_t changed(const struct making *m, const char *from, const char *to, char out[16384])
{
    const char *at = strstr(m->manifest, from);
    if (!at)
        return 0;
    int length = snprintf(out, 16384, "%.*s%s%s", (int)(at - m->manifest), m->manifest, to, at + strlen(from));
    for (char *c = out; *c; c++)
        if (*c == '\'')
            *c = '"';
    return (size_t)length;
}

static void bad_manifests_are_refused_by_field(struct harness *t)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"{'format'", "[{'format'", "not JSON"},
        {"'version':1", "'version':3", "version: is 3"},
        {"'sha256':'", "'format':'zip','sha256':'", "resident.format: is \"zip\""},
        {"'moechat-model'", "'gguf'", "format: is \"gguf\""},
        {"'name':'a name'", "'name':7", "name: is 7"},
        {"'name':'a name'", "'name':'a\\u001bname'", "name: must be"},
        {"'name':'a name'", "'name':'a\\u009bname'", "name: must be"},
        {"'name':'a name'", "'name':'a\\u0000name'", "NUL"},
        {"'name':'a name'", "'name':'a\xff name'", "not JSON"},
        {"'name':'a name'", "'name':'a name','name':'b'", "twice"},
        {"'name':'a name',", "", "name: is missing"},
        {"'config':{", "'config':7,'other':{", "config: is 7"},
        {"'hidden_size':64", "'hidden_size':96", "gate_proj of 8, 2 and 2 columns"},
        {"'file':'resident.safetensors'", "'file':'../resident.safetensors'", "resident.file: is \"../"},
        {"'file':'resident.safetensors'", "'file':'/etc/passwd'", "plain file name"},
        {"'file':'resident.safetensors'", "'file':'..'", "plain file name"},
        {"'file':'resident.safetensors'", "'file':''", "resident.file: must be"},
        {"'file':'resident.safetensors'",
         "'file':'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", "resident.file: must be"},
        {"'file':'tokenizer.model'", "'file':'a/b'", "tokenizer.file"},
        {"'sha256':'", "'sha256':'X", "resident.sha256"},
        {"'alignment':4096", "'alignment':512", "experts.alignment: is 512"},
        {"'blob_bytes':8192", "'blob_bytes':8000", "multiple of 4096"},
        {"'blob_bytes':8192", "'blob_bytes':4096", "parts[6].bytes: reach beyond"},
        {"'blob_bytes':8192", "'blob_bytes':18446744073709551615", "experts.blob_bytes"},
        {"'blob_bytes':8192", "'blob_bytes':-8192", "experts.blob_bytes: is -8192"},
        {"'blob_bytes':8192", "'blob_bytes':12288", "experts.layers[0].bytes"},
        {"'count':4", "'count':5", "experts.count: is 5"},
        {"'offset':1024", "'offset':960", "parts[1].offset: is 960"},
        {"'offset':1024", "'offset':1056", "multiple of 64"},
        {"'offset':4736", "'offset':8128", "parts[8].bytes: reach beyond"},
        {"'offset':4736", "'offset':18446744073709551552", "parts[8].offset"},
        {"'bytes':1024", "'bytes':1020", "parts[0].bytes: is 1020"},
        {"'gate_proj.scales'", "'gate_proj.biases'", "parts[1].name"},
        {"'dtype':'BF16'", "'dtype':'F32'", "parts[1].bytes: is 128"},
        {"'dtype':'BF16'", "'dtype':'F16'", "gate_proj of 8, 2 and 2 columns"}, // its biases are not
        {"'dtype':'BF16'", "'dtype':'I16'", "parts[1].name"},
        {"gate_proj.weight','dtype':'U32'", "gate_proj.weight','kind':'Q4_9','dtype':'U8'", NULL},
        {"gate_proj.weight','dtype':'U32'", "gate_proj.weight','kind':'Q4_K','dtype':'U8'", NULL}, // rows of no 256
        {"gate_proj.weight','dtype':'U32'", "gate_proj.weight','kind':'4 bits','dtype':'U8'", NULL},
        {"gate_proj.weight','dtype':'U32'", "gate_proj.weight','kind':7,'dtype':'U8'", "parts[0].kind: is 7"},
        {"gate_proj.weight','dtype':'U32'", "gate_proj.weight','kind':'Q8_0','dtype':'U32'", "parts[0].name"},
        {"gate_proj.weight','dtype':'U32'", "gate_proj.weight','kind':'Q8_0','dtype':'U8'", "parts[0].bytes: is 1024"},
        {"'shape':[32,8],'offset':0,'bytes':1024", "'shape':[32,9],'offset':0,'bytes':1152", "parts[1].offset"},
        {"'shape':[32,8],'offset':0", "'shape':[32],'offset':0", "shape: has 1 entries"},
        {"'shape':[32,8],'offset':0", "'shape':[31,8],'offset':0", "shape: is 31"},
        {"'shape':[32,2],'offset':2304,'bytes':128", "'shape':[32,1],'offset':2304,'bytes':64", "up_proj of"},
        {",{'name':'down_proj.biases'", "],'x':[{'name':'down_proj.biases'",
         "experts.parts[8].name: is missing; the parts are those of gate_proj"},
        {"'layers':[{'layer'", "'layers':[7,{'layer'", "experts.layers: has 2 entries"},
        {"'bytes':128}],", "'bytes':128},{'name':'x'}],", "experts.parts: has 10 entries"},
        {"'layers':[{", "'layers':[],'other':[{", "experts.layers: has 0 entries"},
        {"'layer':1", "'layer':0", "experts.layers[0].layer: is 0"},
        {"'layer':1", "'layer':2", "experts.layers[0].layer: is 2"},
        {"'type':'sentencepiece'", "'type':null", "tokenizer.type: is null"},
        {"'tokenizer':{", "'tokenizer':[],'other':{", "tokenizer: is a list"},
        {"'template':'moechat-demo'", "'template':''", "template: must be"},
        {"'weights_fingerprint':'", "'weights_fingerprint':'0", "weights_fingerprint"},
        {"'num_hidden_layers':2,", "'num_hidden_layers':3,", "experts.layers: has 1 entries"},
    };
    struct making m;
    make_package(&m);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct package p;
        static char text[16384];
        struct moe_err err = {.text = ""};
        snprintf(p.directory, sizeof p.directory, "P");
        size_t length = changed(&m, cases[i].from, cases[i].to, text);
        int code = length ? package_parse(text, length, &p, &err) : -1;
        const char *says = cases[i].says ? cases[i].says : "moechat has no such rows of 64 inputs";
        int want = cases[i].says && !strstr(says, "zip") ? MOE_FORMAT : MOE_UNSUPPORTED;
        if (!CHECK(t, code == want && (int)err.code == code && strstr(err.text, says) &&
                          strncmp(err.text, "P/model.json: ", 14) == 0))
            printf("    %s: code %d, \"%s\"\n", cases[i].to, code, err.text);
        if (code == MOE_OK)
            package_release(&p);
    }
}

// Version 2: blocks by the name of their kind, scales of other types, gate and up each in its own way.
static void kinds_are_read_by_their_names(struct harness *t)
{
    static const char *const parts[] = {
        "{'name':'gate_proj.weight','kind':'Q4_0','dtype':'U8','shape':[32,36],'offset':0,'bytes':1152},"
        "{'name':'up_proj.weight','dtype':'U32','shape':[32,6],'offset':1152,'bytes':768},"
        "{'name':'up_proj.scales','dtype':'F32','shape':[32,2],'offset':1920,'bytes':256},"
        "{'name':'up_proj.biases','dtype':'F32','shape':[32,2],'offset':2176,'bytes':256},"
        "{'name':'down_proj.weight','kind':'mxfp8','dtype':'U8','shape':[64,32],'offset':2432,'bytes':2048},"
        "{'name':'down_proj.scales','dtype':'U8','shape':[64,%d],'offset':4480,'bytes':64}%s],"};
    static struct package p;
    static char text[16384];
    struct making m;
    struct moe_err err = {.text = ""};
    for (int turn = 0; turn < 3; turn++) {
        char list[1024];
        make_package(&m);
        snprintf(list, sizeof list, parts[0], turn == 1 ? 2 : 1, turn == 2 ? ",{'name':'down_proj.biases'}" : "");
        char *begin = strstr(m.manifest, "{'name':'gate_proj.weight'"), *end = strstr(m.manifest, "'layers':");
        char rest[4096];
        snprintf(rest, sizeof rest, "%s", end);
        snprintf(begin, sizeof m.manifest - (size_t)(begin - m.manifest), "%s%s", list, rest);
        snprintf(p.directory, sizeof p.directory, "P");
        size_t length = changed(&m, "'version':1", "'version':2", text);
        int code = package_parse(text, length, &p, &err);
        if (turn) {
            CHECK(t, code == MOE_FORMAT && strstr(err.text, turn == 1 ? "parts[5].shape: is 2" : "parts: are 7"));
            continue;
        }
        if (!CHECK_EQ(t, code, MOE_OK)) {
            printf("    %s\n", err.text);
            return;
        }
        const struct expert_layout *experts = package_experts(&p, 1);
        struct expert_part list_of[MAX_EXPERT_PARTS];
        CHECK(t, experts->gate.kind == KIND_Q4_0 && experts->up.kind == KIND_MLX_3);
        CHECK(t, experts->up.scale_type == SCALE_F32 && experts->up.group_size == 32 && experts->up.biases == 2176);
        CHECK(t, experts->down.kind == KIND_MLX_MXFP8 && experts->down.scales == 4480);
        CHECK_EQ(t, package_parts(experts, list_of), 6);
        CHECK(t, list_of[5].projection == 2 && list_of[5].array == ARRAY_SCALES && list_of[5].bytes == 64);
        package_release(&p);
    }
}

static void layers_that_come_twice_are_refused(struct harness *t)
{
    static struct package p;
    static char text[16384];
    static char again[16384];
    struct making m;
    struct moe_err err = {.text = ""};
    make_package(&m);
    CHECK(t, changed(&m, "'num_hidden_layers':2", "'num_hidden_layers':3", text) > 0);
    snprintf(m.manifest, sizeof m.manifest, "%.8000s", text);
    char hash[65];
    char entry[256];
    size_t bytes = hash_file("layer-001.experts", hash);
    snprintf(entry, sizeof entry, "\"layers\":[{'layer':1,'file':'b','bytes':%zu,'sha256':'%s'},", bytes, hash);
    size_t length = changed(&m, "\"layers\":[", entry, again);
    CHECK_EQ(t, package_parse(again, length, &p, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "experts.layers[1].layer: is 1 a second time") != NULL);
}

static void without_tokenizer_and_template_is_fine(struct harness *t)
{
    static struct package p;
    static char text[16384];
    struct making m;
    make_package(&m);
    changed(&m, "'tokenizer':{", "'other':{", text);
    snprintf(m.manifest, sizeof m.manifest, "%.8000s", text);
    size_t length = changed(&m, "\"template\":", "\"other2\":", text);
    CHECK_EQ(t, package_parse(text, length, &p, NULL), MOE_OK);
    CHECK(t, p.tokenizer.path == NULL && p.tokenizer_type[0] == '\0' && p.template_name[0] == '\0');
    package_release(&p);
}

static void files_must_be_there_and_whole(struct harness *t)
{
    struct making m;
    struct package p;
    struct moe_err err = {.text = ""};
    make_package(&m);
    CHECK_EQ(t, truncate(in_folder("layer-001.experts"), EXPERTS * BLOB - 1), 0);
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "layer-001.experts: is 32767 bytes, model.json says 32768") != NULL);
    CHECK_STR(t, err.file, in_folder("layer-001.experts"));
    CHECK_EQ(t, rename(in_folder("layer-001.experts"), in_folder("elsewhere")), 0);
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_NOT_FOUND);
    CHECK_EQ(t, truncate(in_folder("elsewhere"), EXPERTS * BLOB), 0);
    CHECK_EQ(t, symlink("elsewhere", in_folder("layer-001.experts")), 0);
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_OK);
    package_release(&p);
    unlink(in_folder("layer-001.experts"));
    unlink(in_folder("elsewhere"));
    CHECK_EQ(t, mkdir(in_folder("layer-001.experts"), 0700), 0);
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_FORMAT);
    rmdir(in_folder("layer-001.experts"));
    unlink(in_folder("model.json"));
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_NOT_FOUND);
    CHECK(t, strstr(err.text, "no model here") != NULL);
    CHECK_EQ(t, symlink("elsewhere", in_folder("convert.journal")), 0); // to nothing
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_NOT_FOUND);
    CHECK(t, strstr(err.text, "no model here") != NULL);
    unlink(in_folder("convert.journal"));
    FILE *journal = fopen(in_folder("convert.journal"), "w");
    CHECK(t, journal != NULL);
    if (journal)
        fclose(journal);
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_NOT_FOUND);
    CHECK(t, strstr(err.text, "unfinished convert; the same moechat convert command goes on") != NULL);
    unlink(in_folder("convert.journal"));
    CHECK_EQ(t, package_open("", &p, &err), MOE_BAD_ARGUMENT);
    uid_t own = geteuid();
    CHECK_EQ(t, chmod(folder, 0311), 0);
    if (own == 0) // whom permissions don't stop
        CHECK_EQ(t, seteuid(65534), 0);
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_IO);
    CHECK(t, strstr(err.text, "cannot be listed: Permission denied") != NULL);
    CHECK_EQ(t, seteuid(own), 0);
    CHECK_EQ(t, chmod(folder, 0700), 0);
}

// As a file that was not downloaded to its end is: answers would be nonsense, and their status 0.
static void zeroed_experts_are_refused(struct harness *t)
{
    struct making m;
    struct package p;
    struct moe_err err = {.text = ""};
    make_package(&m);
    CHECK_EQ(t, package_open(folder, &p, &err), MOE_OK);
    CHECK_EQ(t, verify_no_holes(&p, &err), MOE_OK);
    CHECK_EQ(t, truncate(in_folder("layer-001.experts"), 0), 0);
    CHECK_EQ(t, truncate(in_folder("layer-001.experts"), EXPERTS * BLOB), 0);
    CHECK_EQ(t, verify_no_holes(&p, &err), MOE_FORMAT);
    CHECK_EQ(t, err.cause, MOE_CAUSE_CONSUMED);
    CHECK(t, strstr(err.text, "layer-001.experts: the experts of layer 1 are zeroes: the file was not downloaded") !=
                 NULL);
    package_release(&p);
}

static void note_progress(void *context, const struct moe_progress *progress)
{
    *(struct moe_progress *)context = *progress;
}

static void verify_finds_one_changed_byte(struct harness *t)
{
    static const char *const files[] = {"resident.safetensors", "layer-001.experts", "tokenizer.model"};
    for (int i = -1; i < 3; i++) {
        struct making m;
        struct moe_progress last = {0};
        struct moe_err err = {.text = ""};
        make_package(&m);
        if (i >= 0) {
            FILE *file = fopen(in_folder(files[i]), "r+b");
            fseek(file, -1, SEEK_END);
            fputc(255, file);
            fclose(file);
        }
        CHECK_EQ(t, moe_verify(folder, note_progress, &last, &err), i < 0 ? MOE_OK : MOE_FORMAT);
        if (i < 0)
            CHECK(t, last.done == last.total && last.total > EXPERTS * BLOB + 100);
        else
            CHECK(t, strstr(err.text, files[i]) && strstr(err.text, "SHA-256"));
    }
}

// Opens the package and loads its weights on the ref device; on success *g and *p are the caller's.
static int load(gpu **g, struct package *p, struct weights *w, struct moe_err *err)
{
    struct gpu_error gpu_err;
    struct moe_progress last = {0};
    int code = package_open(folder, p, err);
    if (code)
        return code;
    *g = gpu_open(&(struct gpu_options){.selector = "ref"}, &gpu_err);
    const struct weights_source source = {p, note_progress, &last};
    code = *g ? weights_load(*g, &source, w, err) : -1;
    if (!code && (last.done != last.total || last.total == 0)) {
        weights_release(w);
        code = -2;
    }
    if (code) {
        gpu_close(*g);
        package_release(p);
    }
    return code;
}

static void weights_lie_where_they_say(struct harness *t)
{
    struct making m;
    struct package p;
    struct weights w;
    struct moe_err err = {.text = ""};
    gpu *g;
    make_package(&m);
    if (!CHECK_EQ(t, load(&g, &p, &w, &err), MOE_OK)) {
        printf("    %s\n", err.text);
        return;
    }
    struct layer_weights *dense = &w.layers[0];
    struct layer_weights *moe = &w.layers[1];
    CHECK(t, dense->gate.buf == dense->up.buf && moe->gate.buf == moe->up.buf);
    CHECK(t, !dense->router.buf && !dense->router_bias.buf && !dense->mla.q.buf && dense->mla.q_a.buf);
    CHECK(t, w.embed.at.weight != w.head.at.weight);
    CHECK_EQ(t, dense->down.at.in_dim * 1000 + dense->down.at.out_dim, INTER * 1000 + HIDDEN);
    CHECK_EQ(t, moe->down.at.in_dim * 1000 + moe->down.at.out_dim, MOE_INTER * 1000 + HIDDEN);
    CHECK_EQ(t, kind_bits(moe->mla.kv_b.at.kind) * 1000 + moe->mla.kv_b.at.group_size, 4032);
    const struct {
        const char *name;
        gpu_buf *buf;
        uint64_t offset;
        bool widened; // bf16 in the file, whose bytes are a float's upper two
    } places[] = {
        {"model.embed_tokens.weight", w.embed.buf, w.embed.at.weight, false},
        {"lm_head.biases", w.head.buf, w.head.at.biases, false},
        {"model.norm.weight", w.norm.buf, w.norm.offset, true},
        {"model.layers.0.mlp.up_proj.scales", dense->up.buf, dense->up.at.scales, false},
        {"model.layers.1.self_attn.kv_b_proj.weight", moe->mla.kv_b.buf, moe->mla.kv_b.at.weight, false},
        {"model.layers.1.mlp.gate.weight", moe->router.buf, moe->router.at.weight, false},
        {"model.layers.1.mlp.gate.e_score_correction_bias", moe->router_bias.buf, moe->router_bias.offset, false},
        {"model.layers.1.self_attn.q_a_layernorm.weight", moe->mla.q_a_layernorm.buf, moe->mla.q_a_layernorm.offset,
         true},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        unsigned long begin = 0; // of the tensor in the data, whose bytes count modulo 251
        const struct entry *e = m.entries;
        for (; strcmp(e->name, places[i].name) != 0; e++)
            begin += bytes_of(e);
        unsigned char bytes[8] = {0};
        struct gpu_error gpu_err;
        CHECK_EQ(t, places[i].offset % 64, 0);
        CHECK_EQ(t, gpu_read(g, places[i].buf, places[i].offset, bytes, 8, &gpu_err), GPU_OK);
        for (unsigned long b = 0; b < 8; b++)
            CHECK_EQ(t, bytes[b],
                     !places[i].widened ? (begin + b) % 251
                     : b % 4 < 2        ? 0
                                        : (begin + b / 4 * 2 + b % 2) % 251);
    }
    weights_release(&w);
    gpu_close(g);
    package_release(&p);
}

static void tied_embeddings_are_one_matrix(struct harness *t)
{
    struct making m;
    struct package p;
    struct weights w;
    gpu *g;
    static char text[16384];
    make_package(&m);
    m.entries[3] = m.entries[m.count - 1]; // lm_head's three tensors go
    m.entries[4] = m.entries[m.count - 2];
    m.entries[5] = m.entries[m.count - 3];
    m.count -= 3;
    write_resident(&m);
    write_manifest(&m);
    changed(&m, "'vocab_size'", "'tie_word_embeddings':true,'vocab_size'", text);
    write_file("model.json", text, 0);
    if (!CHECK_EQ(t, load(&g, &p, &w, NULL), MOE_OK))
        return;
    CHECK(t, w.head.buf == w.embed.buf && w.head.at.weight == w.embed.at.weight);
    weights_release(&w);
    gpu_close(g);
    package_release(&p);
}

static void large_models_take_several_slabs(struct harness *t)
{
    enum { ROWS = 4000000 }; // 40 bytes each, twice: more than one slab of 256 MB
    struct making m;
    struct package p;
    struct weights w;
    struct moe_err err = {.text = ""};
    gpu *g;
    static char text[16384];
    make_package(&m);
    m.sparse = true;
    for (size_t i = 0; i < 6; i++)
        m.entries[i].rows = ROWS;
    write_resident(&m);
    write_manifest(&m);
    changed(&m, "'vocab_size':50", "'vocab_size':4000000", text);
    write_file("model.json", text, 0);
    if (!CHECK_EQ(t, load(&g, &p, &w, &err), MOE_OK)) {
        printf("    %s\n", err.text);
        return;
    }
    CHECK_EQ(t, w.n_slabs, 2);
    CHECK(t, w.head.buf != w.embed.buf && gpu_buf_bytes(w.embed.buf) == 256 << 20);
    CHECK(t, gpu_buf_bytes(w.head.buf) < 200 << 20); // the last slab is no larger than it must be
    const struct {
        gpu_buf *buf;
        uint64_t end;
        unsigned char index;
    } places[] = {
        {w.embed.buf, w.embed.at.biases + ROWS * 4UL, 2},
        {w.head.buf, w.head.at.weight + ROWS * 32UL, 3},
        {w.head.buf, w.head.at.biases + ROWS * 4UL, 5},
        {w.norm.buf, w.norm.offset + HIDDEN * 4UL, 6},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        unsigned char bytes[2] = {0};
        struct gpu_error gpu_err;
        CHECK_EQ(t, gpu_read(g, places[i].buf, places[i].end - 2, bytes, 2, &gpu_err), GPU_OK);
        CHECK(t, bytes[0] == places[i].index && bytes[1] == places[i].index);
    }
    weights_release(&w);
    gpu_close(g);
    package_release(&p);
}

static void wrong_tensors_are_refused_by_name(struct harness *t)
{
    static const struct {
        const char *name;   // the tensor that is changed
        const char *rename; // NULL: it keeps its name
        const char *dtype;
        unsigned rows, cols;
        enum moe_code code;
        const char *says;
    } cases[] = {
        {"lm_head.scales", "lm_head.scale", "BF16", 50, 2, MOE_NO_TENSOR, "tensor lm_head.scales is missing"},
        {"model.norm.weight", "norm", "BF16", 64, 0, MOE_NO_TENSOR, "tensor model.norm.weight is missing"},
        {"model.norm.weight", NULL, "U32", 64, 0, MOE_FORMAT, "another dtype"},
        {"model.norm.weight", NULL, "BF16", 63, 0, MOE_FORMAT, "is [63]; the model's config makes it [64]"},
        {"model.norm.weight", NULL, "BF16", 64, 1, MOE_FORMAT, "is [64, 1]"},
        {"model.layers.1.mlp.gate.weight", NULL, "F32", EXPERTS + 1, HIDDEN, MOE_FORMAT,
         "is [5, 64]; the model's config makes it [4"},
        {"model.layers.1.mlp.gate.e_score_correction_bias", NULL, "F32", EXPERTS - 1, 0, MOE_FORMAT, "is [3]"},
        {"lm_head.weight", NULL, "U32", 49, 8, MOE_FORMAT, "is [49, 8]; the model's config makes it [50"},
        {"lm_head.weight", NULL, "U32", 50, 9, MOE_FORMAT, "64 inputs of 2 to 8 bits"},
        {"lm_head.weight", NULL, "U32", 400, 0, MOE_FORMAT, "is [400]"},
        {"lm_head.scales", NULL, "BF16", 50, 3, MOE_FORMAT, "64 inputs of 2 to 8 bits"},
        {"lm_head.biases", NULL, "BF16", 50, 1, MOE_FORMAT, "64 inputs of 2 to 8 bits"},
        {"lm_head.biases", NULL, "F32", 50, 2, MOE_FORMAT, "as its scales are"},
        {"model.layers.1.mlp.gate.e_score_correction_bias", NULL, "U32", 4, 0, MOE_FORMAT, "another dtype"},
        {NULL, "model.layers.2.input_layernorm.weight", "BF16", 64, 0, MOE_FORMAT, "is not one of this model's"},
        {NULL, "model.layers.0.self_attn.q_proj.weight", "U32", 24, 8, MOE_FORMAT, "is not one of this model's"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct making m;
        struct package p;
        struct weights w;
        struct moe_err err = {.text = ""};
        gpu *g;
        make_package(&m);
        struct entry *e = cases[i].name ? entry_of(&m, cases[i].name) : &m.entries[m.count++];
        if (cases[i].rename)
            snprintf(e->name, sizeof e->name, "%s", cases[i].rename);
        e->dtype = cases[i].dtype;
        e->rows = cases[i].rows;
        e->cols = cases[i].cols;
        write_resident(&m);
        write_manifest(&m);
        int code = load(&g, &p, &w, &err);
        if (!CHECK(t, code == (int)cases[i].code && strstr(err.text, cases[i].says) &&
                          strstr(err.text, "resident.safetensors")))
            printf("    case %zu: code %d, \"%s\"\n", i, code, err.text);
        static const char *const helper[] = {"/none", NULL};
        const struct moe_model_options helped = {.device = "cpu", .kernel_helper = helper};
        moe_model *model;
        CHECK_EQ(t, moe_model_open(folder, &helped, &model, NULL), cases[i].code); // nobody asked for words
        if (code)
            continue;
        weights_release(&w);
        gpu_close(g);
        package_release(&p);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_good_package_opens),
        TEST(a_package_describes_itself),
        TEST(it_tells_what_its_maker_suggests),
        TEST(bad_manifests_are_refused_by_field),
        TEST(kinds_are_read_by_their_names),
        TEST(layers_that_come_twice_are_refused),
        TEST(without_tokenizer_and_template_is_fine),
        TEST(files_must_be_there_and_whole),
        TEST(zeroed_experts_are_refused),
        TEST(verify_finds_one_changed_byte),
        TEST(weights_lie_where_they_say),
        TEST(tied_embeddings_are_one_matrix),
        TEST(large_models_take_several_slabs),
        TEST(wrong_tensors_are_refused_by_name),
    };
    if (!mkdtemp(folder))
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    static const char *const files[] = {"model.json", "resident.safetensors", "layer-001.experts", "tokenizer.model"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(in_folder(files[i]));
    rmdir(folder);
    return code;
}
