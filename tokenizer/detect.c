// SPDX-License-Identifier: GPL-3.0-or-later
// Which of our templates a chat_template (Jinja) is, by what it is made of, spaces apart: all fragments of a row must
// be there and none of those it must not have, nor may it say in words what ours does not. Sources: the chat_template
// of the models' tokenizer_config.json or chat_template.jinja.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/prose.h"
#include "tokenizer/tok.h"

#define USER "<\xEF\xBD\x9CUser\xEF\xBD\x9C>"
#define ASSISTANT                                                                                                      \
    "<\xEF\xBD\x9C"                                                                                                    \
    "Assistant\xEF\xBD\x9C>"
#define EOS                                                                                                            \
    "<\xEF\xBD\x9C"                                                                                                    \
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"

enum { N_FRAGMENTS = 5, N_SAYINGS = 2, TEMPLATE_BYTES_MAX = 1 << 20 };

static const struct kind {
    const char *name;
    const char *has[N_FRAGMENTS], *lacks[N_FRAGMENTS];
} kinds[] = {
    {"cogito-v2", {"Enable deep thinking subroutine.", "created by Deep Cogito", USER, ASSISTANT}, {NULL}},
    {"deepseek-v3.1",
     {"'" USER "'+message['content']", "'" ASSISTANT "'", "split('</think>',1)[1]", "{%ifnotthinking%}{{'</think>'}}"},
     {NULL}},
    {"deepseek-v3.1", // as Unsloth has it
     {"'" USER "'+message['content']", "'" ASSISTANT "'",
      "{%setsplitted=content.split('</think>')%}{%setcontent=splitted[1:]|join('</think>')%}",
      "{%ifnotthinking%}{{'</think>'}}"},
     {NULL}},
    {"deepseek-v3.2", // as llama.cpp writes it for files whose makers ship an encoder in its place
     {USER "{{message.content}}" ASSISTANT "{%ifmsg_index==last_user_index.valueandenable_thinking%}"
           "{{thinking_start_token}}{%else%}{{thinking_end_token}}{%endif%}",
      "{%setthinking_start_token=\"<think>\"%}{%setthinking_end_token=\"</think>\"%}", "{{bos_token}}",
      "{{message.get('content','')}}", "{{eos_token}}"},
     {NULL}},
    // As it does since. Thinking that is off it opens and closes, V3.2's makers only close it: so do we.
    {"deepseek-v3.2",
     {"{{'" USER "'+(message['content']or'')}}",
      "{{'" ASSISTANT "'}}{%ifis_after_last_userandthinking%}{{thinking_start_token}}{%ifmessage['reasoning_content']"
      "isdefinedandmessage['reasoning_content']%}{{message['reasoning_content']}}{%endif%}{{thinking_end_token}}"
      "{%else%}{{thinking_end_token}}{%endif%}",
      "{%setthinking_start_token='<think>'%}{%setthinking_end_token='</think>'%}", "{{bos_token}}{{ns.system_prompt}}",
      "{{'" ASSISTANT "'}}{%ifthinking%}{{thinking_start_token}}{%else%}{{thinking_start_token+thinking_end_token}}"
      "{%endif%}"},
     {NULL}},
    {"deepseek-r1",
     {"'" USER "'+message['content']", "split('</think>')[-1]", "'" ASSISTANT "<think>\\n'", "ns.system_prompt"},
     {"enable_thinking"}},
    {"deepseek-v3",
     {"'" USER "'+message['content']", ASSISTANT, "{{bos_token}}{{ns.system_prompt}}", "add_generation_prompt"},
     {"'<think>", "<think>\\n", "enable_thinking", "thinkingisdefined"}},
    {"deepseek-v3", // R1 of May: the model opens its thinking itself
     {"{{'" USER "'+content+'" ASSISTANT "'}}", "{%setcontent=content.split('</think>')[-1]%}",
      "{{bos_token}}{{ns.system_prompt}}", "{{content+'" EOS "'}}"},
     {"'<think>", "<think>\\n", "enable_thinking", "thinkingisdefined"}},
    {"deepseek-v2",
     {"{{bos_token}}", "'User: '+message['content']+'\\n\\n'", "'Assistant: '+message['content']+eos_token",
      "{{'Assistant:'}}"},
     {"tools"}},
    {"kimi-k2-thinking",
     {"YouareKimi,anAIassistantcreatedbyMoonshotAI.<|im_end|>", "<think></think>{{render_content(message)}}",
      "<|im_user|>{{role_name}}<|im_middle|>", "<|im_assistant|>assistant<|im_middle|>"},
     {"preserve_thinking", "thinkingisdefined"}},
    {"kimi-k2.5",
     {"{%formessageinhist_msgs%}{{set_roles(message)}}{%ifmessage['role']=='assistant'%}<think></"
      "think>{{render_content("
      "message)}}",
      "<|im_user|>{{role_name}}<|im_middle|>",
      "<|im_assistant|>assistant<|im_middle|>{%ifthinkingisdefinedandthinkingisfalse%}<think></think>{%else%}<think>{%"
      "endif%}"},
     {"YouareKimi", "preserve_thinking|default(true)"}},
    {"kimi-k2-0905",
     {"{%ifloop.firstandmessages[0]['role']!='system'%}<|im_system|>system<|im_middle|>"
      "YouareKimi,anAIassistantcreatedbyMoonshotAI.<|im_end|>{%endif%}",
      "<|im_user|>{{role_name}}<|im_middle|>", "<|im_assistant|>{{role_name}}<|im_middle|>",
      "<|im_assistant|>assistant<|im_middle|>"},
     {"<think>", "thinking"}},
    {"kimi-k2",
     {"<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>", "<|im_user|>user<|im_middle|>",
      "message['content']+'<|im_end|>'", "<|im_assistant|>assistant<|im_middle|>"},
     {"<think>"}},
    {"kimi-linear", // K2's turns, and nothing is said where nobody says it
     {"{%formessageinmessages%}{%setrole_name=message.get('name')ormessage['role']%}{%ifmessage['role']=='user'%}"
      "<|im_user|>{{role_name}}<|im_middle|>",
      "<|im_assistant|>{{role_name}}<|im_middle|>{%else%}<|im_system|>{{role_name}}<|im_middle|>",
      "{{render_content(message)}}", "<|im_end|>", "<|im_assistant|>assistant<|im_middle|>"},
     {"Youare", "<think>", "thinking"}},
    {"kimi-k3", // as llama.cpp writes its makers' encoder
     {"{%setthinking=true%}{%endif%}{%ifthinking_effortisundefined%}{%setthinking_effort='max'%}",
      "{%ifthinking%}{%setreasoning_content=message.get('reasoning_content')ormessage.get('reasoning')%}"
      "{{open_tag('think')}}",
      "{{close_tag('think')}}{%endif%}{{open_tag('response')}}{{render_content(message.get('content'),state)}}"
      "{{close_tag('response')}}",
      "{{open_tag('message',[('role','assistant')])}}{{open_tag('think'ifthinkingelse'response')}}",
      "{{'<|close|>'+tag+'<|sep|>'}}"},
     {NULL}},
    {"moonlight",
     {"<|im_system|>system<|im_middle|>YouareahelpfulassistantprovidedbyMoonshot-AI.<|im_end|>", "<|im_user|>",
      "<|im_middle|>{{message['content']}}<|im_end|>", "<|im_assistant|>assistant<|im_middle|>"},
     {"<think>"}},
    {"glm-4.7",
     {"[gMASK]<sop>", "<|user|>{{visible_text(m.content)}}", "{{'</think>'}}",
      "<|assistant|>{{'</think>'if(enable_thinkingisdefinedandnotenable_thinking)else'<think>'}}"},
     {"/nothink", "'\\n<think>"}},
    {"glm-5.2",
     {"[gMASK]<sop>{%seteffective_reasoning_effort='high'ifreasoning_effortisdefinedandreasoning_effort=='high'else'"
      "max'"
      "%}",
      "{%if(enable_thinkingisnotdefinedorenable_thinking)andeffective_reasoning_effortisnotnone%}<|system|>"
      "ReasoningEffort:{{effective_reasoning_effort|capitalize}}{%endif%}",
      "<|user|>{{visible_text(m.content)}}", "{{'<think></think>'}}{%endif%}{%ifcontent.strip()%}{{content.strip()}}",
      "<|assistant|>{{'<think></think>'if(enable_thinkingisdefinedandnotenable_thinking)else'<think>'}}"},
     {"/nothink", "'\\n<think>"}},
    {"glm-5.3", // the thinking of earlier answers is left out, as its makers ask for in a chat
     {"[gMASK]<sop>", "<|system|>ReasoningEffort:{{effective_reasoning_effort|capitalize}}",
      "<|user|>{{visible_text(m.content)}}", "{{'<think></think>'}}{%endif%}{%ifcontent.strip()%}{{content.strip()}}",
      "<|assistant|>{{'<think>'}}{%endif%}"},
     {"/nothink", "'\\n<think>"}},
    {"qwen3-thinking",
     {"{%ifmessages[0].role=='system'%}{{'<|im_start|>system\\n'+messages[0].content+'<|im_end|>\\n'}}{%endif%}",
      "{%if(message.role==\"user\")or(message.role==\"system\"andnotloop.first)%}{{'<|im_start|>'+message.role+'\\n'+"
      "content+'<|im_end|>'+'\\n'}}",
      "{%setcontent=content.split('</think>')[-1].lstrip('\\n')%}",
      "{%else%}{{'<|im_start|>'+message.role+'\\n'+content}}{%endif%}",
      "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n<think>\\n'}}{%endif%}"},
     {"|trim", "You are", "enable_thinking", "preserve_thinking"}},
    {"qwen3.5",
     {"{%setcontent=render_content(message.content,true)|trim%}",
      "{%setcontent=content.split('</think>')[-1].lstrip('\\n')%}", "loop.index0>ns.last_query_index",
      "{%else%}{{'<|im_start|>'+message.role+'\\n'+content}}{%endif%}",
      "{{'<|im_start|>assistant\\n'}}{%ifenable_thinkingisdefinedandenable_thinkingisfalse%}{{'<think>\\n\\n</think>"
      "\\n\\n'}}{%else%}{{'<think>\\n'}}{%endif%}"},
     {"preserve_thinkingisundefined", "preserve_thinking|default(true)", "reasoning_effort"}},
    {"chatml",
     {"{%formessageinmessages%}{{'<|im_start|>'+message['role']+'\\n'+message['content']+'<|im_end|>'+'\\n'}}{%endfor%"
      "}",
      "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}{%endif%}"},
     {"system", "elif", "set", "raise"}},
    {"chatml", // Qwen3-Coder's and Coder-Next's: their own system prompt is for tools
     {"{%setsystem_message=messages[0][\"content\"]%}{%setloop_messages=messages[1:]%}{%else%}{%setloop_messages="
      "messages%}{%endif%}",
      "{%ifsystem_messageisdefined%}{{\"<|im_start|>system\\n\"+system_message}}{%else%}{%iftools",
      "{%ifsystem_messageisdefined%}{{'<|im_end|>\\n'}}{%else%}{%iftools",
      "{%elifmessage.role==\"user\"ormessage.role==\"system\"ormessage.role==\"assistant\"%}{{'<|im_start|>'+"
      "message.role+'\\n'+message.content+'<|im_end|>'+'\\n'}}",
      "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}{%endif%}"},
     {"think"}},
    {"chatml", // Qwen3's without thinking, as its instruct models and Qwen3-Next have it; the rest of it is about tools
     {"{%else%}{%ifmessages[0].role=='system'%}{{'<|im_start|>system\\n'+messages[0].content+'<|im_end|>\\n'}}{%endif%}"
      "{%endif%}{%formessageinmessages%}",
      "{%if(message.role==\"user\")or(message.role==\"system\"andnotloop.first)%}{{'<|im_start|>'+message.role+'\\n'+"
      "content+'<|im_end|>'+'\\n'}}",
      "{%elifmessage.role==\"assistant\"%}{{'<|im_start|>'+message.role+'\\n'+content}}", "{{'<|im_end|>\\n'}}",
      "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}{%endif%}"},
     {"think", "You are", "|trim"}},
};

// The words of the templates that have any.
static const struct saying {
    const char *name, *words[N_SAYINGS];
} sayings[] = {
    {"cogito-v2",
     {"You are Cogito, an AI assistant created by Deep Cogito, which is an AI research lab based in San Francisco.",
      "Enable deep thinking subroutine."}},
    {"kimi-k2", {"You are a helpful assistant"}},
    {"kimi-k2-0905", {"You are Kimi, an AI assistant created by Moonshot AI."}},
    {"kimi-k2-thinking", {"You are Kimi, an AI assistant created by Moonshot AI."}},
    {"kimi-k3",
     {"`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
      "supported values include `low`, `medium`, `high`, and `max`.",
      "Now the system is invoked with `thinking_effort="}},
    {"moonlight", {"You are a helpful assistant provided by Moonshot-AI."}},
    {"glm-5.2", {"Reasoning Effort"}},
    {"glm-5.3", {"Reasoning Effort"}},
};

static bool says_other(const char *name, const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof sayings / sizeof *sayings; i++)
        if (strcmp(sayings[i].name, name) == 0)
            return prose_has_other(text, length, sayings[i].words, N_SAYINGS);
    return prose_has_other(text, length, NULL, 0);
}

static bool is_kind(const struct kind *kind, const char *text)
{
    for (int i = 0; i < N_FRAGMENTS; i++) {
        if (kind->has[i] && !strstr(text, kind->has[i]))
            return false;
        if (kind->lacks[i] && strstr(text, kind->lacks[i]))
            return false;
    }
    return true;
}

// Without comments, white space and the dashes that trim it, but for the space within a tag's quotes, where
// a quote may be escaped. There a line break is written \n, and so is one that is escaped twice, as in files that were
// dumped twice. `out` has room for 2 * length bytes and a 0.
static void squeeze(const char *text, size_t length, char *out)
{
    bool tag = false, escaped = false;
    char quote = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i], next = i + 1 < length ? text[i + 1] : 0, before = i ? text[i - 1] : 0;
        if (!tag && c == '{' && next == '#') {
            while (i + 1 < length && (text[i] != '#' || text[i + 1] != '}'))
                i++;
            i++;
            continue;
        }
        if (!tag && c == '{' && (next == '{' || next == '%'))
            tag = true;
        else if (tag && !quote && (c == '}' || c == '%') && next == '}')
            tag = false;
        else if (tag && !escaped && (c == '\'' || c == '"') && (!quote || quote == c))
            quote = quote ? 0 : c;
        escaped = quote && c == '\\' && !escaped;
        bool space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
        bool trims = c == '-' && (before == '{' || before == '%' || next == '%' || next == '}');
        bool twice = quote && c == '\\' && next == '\\' && i + 2 < length && text[i + 2] == 'n';
        if (quote && c == '\n')
            *out++ = '\\';
        if (c && !twice && (!(space || trims) || quote))
            *out++ = (char)(quote && c == '\n' ? 'n' : c);
    }
    *out = 0;
}

const char *tok_template_detect(const char *text, size_t length)
{
    char *squeezed = length <= TEMPLATE_BYTES_MAX ? malloc(2 * length + 1) : NULL;
    const char *name = NULL;
    if (!squeezed)
        return NULL;
    squeeze(text, length, squeezed);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !name; i++)
        name = is_kind(&kinds[i], squeezed) ? kinds[i].name : NULL;
    free(squeezed);
    return name && !says_other(name, text, length) ? name : NULL;
}
