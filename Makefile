# SPDX-License-Identifier: GPL-3.0-or-later
# moechat: `make deps chat` sets up and chats with the demo model, `make deps check` sets up and passes the tests.

PREFIX  ?= /usr/local
SHAREDIR ?= $(PREFIX)/share
DATADIR ?= $(SHAREDIR)/moechat
MANDIR  ?= $(PREFIX)/share/man
CC      ?= cc
CXX     ?= c++
OPT     ?= -O2 -g
BUILD   ?= build
FUZZ_SECONDS ?= 60
# All processors build, unless -j says how many, or clean comes first.
ifeq ($(MAKELEVEL)$(filter clean,$(MAKECMDGOALS))$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# Debian's packages: to build, to run on any machine without a GPU (PoCL), and to test.
DEPS_BUILD = gcc g++ libc6-dev pkg-config libncursesw5-dev libreadline-dev libjson-c-dev ocl-icd-opencl-dev \
             opencl-c-headers libsentencepiece-dev libpcre2-dev libssl-dev libxxhash-dev
DEPS_RUN   = pocl-opencl-icd
DEPS_TEST  = clang libclang-rt-14-dev python3 python3-venv python3-pyte tmux
DEPS       = $(DEPS_BUILD) $(DEPS_RUN) $(DEPS_TEST)

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
# Includes name their room from the root: #include "engine/experts/expert_store.h".
INCLUDES = -I.
# Asked for when a recipe runs, not when this file is read: `make deps chat` installs pkg-config itself.
PACKAGES   = json-c readline ncursesw sentencepiece libpcre2-8 libcrypto libxxhash
PKG_CFLAGS = $(filter-out -D_XOPEN_SOURCE=%,$(shell pkg-config --cflags $(PACKAGES)))
PKG_LIBS   = $(shell pkg-config --libs $(PACKAGES)) -lOpenCL -lpthread -lm
# A finding ends the program, whichever sanitizer's it is.
SANITIZERS = $(SANITIZE:%=-fsanitize=%) $(if $(SANITIZE),-fno-sanitize-recover=all)
CPPFLAGS += -D_FILE_OFFSET_BITS=64 -DMOECHAT_DATADIR='"$(DATADIR)"'
CFLAGS   += -std=c11 -D_XOPEN_SOURCE=700 $(OPT) $(WARNINGS) -Wmissing-prototypes $(SANITIZERS)
CXXFLAGS += -std=c++17 $(OPT) $(WARNINGS) $(SANITIZERS)
LDFLAGS  += $(SANITIZERS)
# The oracle keeps its sums in order and may use any vectors the compiler finds; no contraction, as in the kernels.
CFLAGS   += -ffp-contract=off
$(BUILD)/kernels/ref.o $(BUILD)/kernels/ref_kinds.o $(BUILD)/kernels/ref_mixers.o $(BUILD)/kernels/ref_index.o: OPT += -O3

ROOMS   := kernels engine engine/* tokenizer app app/*
SOURCES := $(wildcard $(ROOMS:%=%/*.c))
KERNELS := $(sort $(wildcard kernels/*.cl))
OBJECTS  = $(SOURCES:%.c=$(BUILD)/%.o) $(BUILD)/tokenizer/sentencepiece.o $(BUILD)/kernels_cl.o
LIBRARY  = $(BUILD)/libmoechat.a
PROGRAM  = $(if $(filter build,$(BUILD)),moechat,$(BUILD)/moechat)

TEST_SOURCES := $(sort $(foreach d,ops unit fault,$(shell find tests/$(d) -name 'test_*.c')))
TESTS         = $(TEST_SOURCES:%.c=$(BUILD)/%)
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
FUZZERS       = $(FUZZ_SOURCES:%.c=$(BUILD)/%)
BENCHES      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/bench_*.c))

.PHONY: suite warps test-long test-widths test-llama tsan soak power eio whole mutate reach valgrind oclgrind test-memory all deps chat tests check unit golden screens typist asan-tests fuzz fuzz-library bench layers format install clean
all: $(PROGRAM)

# Installs what is missing, through sudo when not root; does nothing when all is there.
deps:
	@missing=; for p in $(DEPS); do \
	    dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
	    echo "installing:$$missing"; as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	    $$as_root apt-get update -q && \
	    $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; \
	fi

chat: $(PROGRAM)
	@./$(PROGRAM)

$(PROGRAM): $(BUILD)/app/main.o $(LIBRARY)
	$(CXX) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)

$(LIBRARY): $(filter-out $(BUILD)/app/main.o,$(OBJECTS))
	@rm -f $@
	ar qcs $@ $^ # q: members of two rooms may have one name

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(INCLUDES) $(PKG_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(INCLUDES) $(PKG_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/kernels_cl.o: $(BUILD)/kernels_cl.c
	$(CC) $(CPPFLAGS) $(CFLAGS) $(INCLUDES) -c -o $@ $<
$(BUILD)/kernels_cl.c: kernels/embed.sh $(wildcard kernels/*.h) $(KERNELS)
	@mkdir -p $(@D)
	sh kernels/embed.sh kernels >$@.new && mv $@.new $@

# ---- tests: every program prints PASS or FAIL lines, tests/run.sh counts them ----
# Compiled in less time, and linked by gold where it is; what measures is built as the program is.
TEST_OPT = $(if $(filter $(BUILD)/tests/bench/%,$@),,-O1 -g1)
TEST_LD := $(if $(shell command -v ld.gold),-fuse-ld=gold)
$(BUILD)/tests/%: tests/%.c $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(TEST_OPT) $(INCLUDES) $(PKG_CFLAGS) -MMD -MP -MT $@ -c -o $@.o $<
	$(CXX) $(LDFLAGS) $(TEST_LD) -o $@ $@.o $(LIBRARY) $(PKG_LIBS)

# A disk that answers EIO at random, preloaded by tests/fault/test_eio.py.
EIO = $(BUILD)/tests/fault/eio.so
$(EIO): tests/fault/eio.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(filter-out -fsanitize=% -Wmissing-prototypes,$(CFLAGS)) -fPIC -shared -o $@ $< -ldl

# OpenCL with one device, a GPU of NVIDIA's, on this machine's processor: tests/emulate/opencl.c. On
# x86-64 alone: elsewhere warps.sh says that it is skipped.
WARPS = build/tests/emulate/libOpenCL.so.1
WARPS_HERE = $(if $(filter x86_64,$(shell uname -m)),$(WARPS))
$(WARPS): $(wildcard tests/emulate/*)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(filter-out -fsanitize=% -fno-sanitize-recover=%,$(CFLAGS)) -march=native $(INCLUDES) -fPIC -shared \
	    -Wl,--version-script=tests/emulate/opencl.map -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) -ldl -lpthread

# The engine with an oracle in the place of an op: tests/host_combine.h.
$(addprefix $(BUILD)/tests/unit/engine/session/test_,identity placement): \
    private LDFLAGS += -Wl,--wrap=gpu_op_combine,--wrap=gpu_op_combine_norm

# Machines with so much memory: tests/unit/engine/model/test_set_aside.c.
$(BUILD)/tests/unit/engine/model/test_set_aside: private LDFLAGS += -Wl,--wrap=gpu_host_memory_left

# What norms are given is seen: tests/unit/engine/walk/test_epsilons.c.
$(BUILD)/tests/unit/engine/walk/test_epsilons: private LDFLAGS += $(foreach f,delta gated_norm delta_token delta_layer,-Wl,--wrap=gpu_op_$f)

# A disk whose power goes behind the C library's calls: tests/power_calls.h.
$(BUILD)/tests/fault/engine/convert/test_convert_power $(BUILD)/tests/fault/app/util/test_files_power: private LDFLAGS += \
    $(foreach f,open64 write pwrite64 close fcntl64 fsync ftruncate64 rename mkdir unlink mkstemp64 fflush fopen64,-Wl,--wrap=$f)

# A disk that fails at the calls that the engine's options can't disturb: tests/fault/engine/convert/test_convert_faults.c.
$(BUILD)/tests/fault/engine/convert/test_convert_faults: private LDFLAGS += $(foreach f,open64 pread64 write fsync ftruncate64 statvfs64 readdir64 lockf64 unlink pthread_create,-Wl,--wrap=$f)

# A folder of sessions that cannot be read to its end: tests/fault/app/store/test_store_faults.c.
$(BUILD)/tests/fault/app/store/test_store_faults: private LDFLAGS += -Wl,--wrap=readdir64

# Memory that is refused: tests/fault/app/test_refused.c.
$(BUILD)/tests/fault/app/test_refused: private LDFLAGS += $(foreach f,malloc calloc realloc read write,-Wl,--wrap=$f)

# Memory that is refused to our own objects: tests/fault/engine/session/test_refused_memory.c.
$(BUILD)/tests/fault/engine/session/test_refused_memory: private LDFLAGS += \
    $(foreach f,malloc calloc realloc aligned_alloc posix_memalign strdup free \
    $(addprefix json_object_,array_add object_add $(addprefix new_,object array string uint64 int64 double boolean)),-Wl,--wrap=$f)

# Kernels that fail: tests/fault/kernels/test_formats.c.
$(BUILD)/tests/fault/kernels/test_formats: private LDFLAGS += \
    $(foreach f,program_open_token program_open_kind program_close program_for_two_groups gpu_prove_token gpu_op_embed gpu_op_matvec,-Wl,--wrap=$f)

# A driver in the test's hand: tests/fake_driver.h.
$(BUILD)/tests/fault/kernels/test_driver_calls $(BUILD)/tests/ops/test_refusals $(BUILD)/tests/ops/test_refusals_mixers: private LDFLAGS += \
    $(foreach f,CreateCommandQueue ReleaseCommandQueue CreateBuffer ReleaseMemObject ReleaseEvent EnqueueWriteBuffer EnqueueReadBuffer \
    EnqueueMapBuffer EnqueueUnmapMemObject EnqueueMarkerWithWaitList EnqueueBarrierWithWaitList EnqueueNDRangeKernel SetKernelArg \
    Finish Flush WaitForEvents GetEventInfo GetEventProfilingInfo ReleaseContext,-Wl,--wrap=cl$f)

# Each sync is seen: tests/fault/kernels/test_driver_seal.c.
$(BUILD)/tests/fault/kernels/test_driver_seal: private LDFLAGS += -Wl,--wrap=fsync

# A fuzz target with replay.c as its main: runs the corpus and fixed mutants of it.
$(BUILD)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(BUILD)/tests/fuzz/replay.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(TEST_OPT) $(INCLUDES) $(PKG_CFLAGS) -MMD -MP -MT $@ -c -o $@.o $<
	$(CXX) $(LDFLAGS) $(TEST_LD) -o $@ $@.o $(BUILD)/tests/fuzz/replay.o $(LIBRARY) $(PKG_LIBS)
.PRECIOUS: $(BUILD)/tests/fuzz/replay.o

GOLDEN   = $(BUILD)/tests/golden/golden
ALL_GOLDENS := $(patsubst %/golden.json,%,$(wildcard tests/golden/*/golden.json))
GOLDENS := $(filter-out tests/golden/long-%,$(ALL_GOLDENS))
SCREENS := $(wildcard tests/screens/*.sh tests/screens/test_*.py)
CHUNKS   = --chunk 1 --chunk 7 --chunk 64 --chunk 0
# Plain C takes its time with long texts; its way of reading is one, whatever the chunk: attention of a token and
# of many is the same function. By tokens beyond 1024 positions, and at once all 1500.
CHUNKS_ref_demo-1100 = --chunk 1
CHUNKS_ref_demo-1500 = --chunk 0
CHUNKS_ON = $(or $(CHUNKS_$(2)_$(notdir $(1))),$(CHUNKS))
# Packages, and checkpoints as they are; what runs as it is is packed on one device, for packing is the same on all.
PACKED = $(filter tests/golden/gguf-% tests/golden/mlx-%,$(GOLDENS))
GOLDENS_ON = $(foreach g,$(filter-out tests/golden/ck-%,$(GOLDENS)),'$(GOLDEN) $(g) --device $(1) $(call CHUNKS_ON,$(g),$(1)) $(if \
        $(filter ref,$(1)),$(if $(filter $(g),$(PACKED)),--convert ./$(PROGRAM)))') \
    $(foreach g,$(filter tests/golden/ck-%,$(GOLDENS)),'$(GOLDEN) $(g) --device $(1) --chunk 1 --chunk 7 --chunk 0 --convert ./$(PROGRAM)')
# More than 32768 tokens: fast kernels alone, and all at once but for the last tokens.
LONG_RUN = '$(GOLDEN) $(1) --device cpu --chunk 0 --convert ./$(PROGRAM)'
GOLDENS_CPU = $(call GOLDENS_ON,cpu) $(call LONG_RUN,tests/golden/long-v3)

# Kernels for tensor cores, on warps that are emulated: some in make check, more by make warps.
WARPS_RUN = 'sh tests/emulate/warps.sh $(WARPS) $(1)'
WARPS_FEW = $(call WARPS_RUN,$(BUILD)/tests/ops/test_ops products swiglus heads_of attentions) \
    $(call WARPS_RUN,$(BUILD)/tests/ops/test_plain attentions_plain) \
    $(call WARPS_RUN,$(BUILD)/tests/ops/test_index scores lists) \
    $(call WARPS_RUN,$(BUILD)/tests/ops/test_token) \
    $(call WARPS_RUN,env MOECHAT_TEST_KIND=Q4_K $(BUILD)/tests/ops/test_kinds products heads swiglu)
WARPS_MORE = $(foreach t,ops plain index experts fused bits,$(call WARPS_RUN,$(BUILD)/tests/ops/test_$(t))) \
    $(call WARPS_RUN,$(BUILD)/tests/ops/test_kinds weights products heads swiglus) \
    $(foreach g,ck-v32 ck-k2 ck-glm-list ck-kimi-k3,$(call WARPS_RUN,$(GOLDEN) tests/golden/$(g) --device gpu --chunk 0 --chunk 7 \
        --convert ./$(PROGRAM))) \
    $(foreach g,gguf-v2-lite-q4km gguf-v3-ud mlx-widths ck-glm-52-mlx,$(call WARPS_RUN,$(GOLDEN) tests/golden/$(g) --device gpu --chunk 0 --chunk 7)) \
    $(foreach g,gguf-qwen35moe gguf-moonlight-q5km gguf-k2-q4_0,$(call WARPS_RUN,$(GOLDEN) tests/golden/$(g) --device gpu --chunk 1))

tests: suite $(GOLDEN) $(BENCHES) $(BUILD)/tests/bench/synthetic $(EIO) $(WARPS_HERE)
suite: $(PROGRAM) $(TESTS) $(FUZZERS) # what the sanitizers look at, too

# Kernel binaries of the tests stay in the build folder, and the drivers' own caches too.
check unit golden test-long screens: export XDG_CACHE_HOME = $(abspath build)/cache
# The settings of whoever runs them are none of the tests'.
check unit golden test-long screens bench: export MOECHAT_CONFIG = none
# The sanitizer guesses the size of a library's thread-local storage from the bytes in front of it; what PoCL loads late
# has none there, and the leak checker then falls over memory that is not there ("Tracer caught signal 11").
# Nor has it a say in signal stacks: LLVM gives a thread that builds kernels its own, which the sanitizer would unmap at its end.
check: export ASAN_OPTIONS = intercept_tls_get_addr=0:use_sigaltstack=0
# Readline keeps what it was given to the end.
check: export LSAN_OPTIONS = suppressions=$(CURDIR)/tests/leaks.txt:print_suppressions=0

# One list, one count: the plain build's goldens, tests and screens, then the same tests under the sanitizers. The screens
# wait more than they compute and take longest: they begin as soon as the goldens have built the kernels that they need.
ASAN = build/asan
# They wait for the disk, and for the clock, more than they compute: lanes of their own. Times are looked at where kernels are
# built already.
SYNCING = $(addprefix fault/app/store/test_,store_faults power session_lives) fault/engine/convert/test_convert_power
WAITING = $(SYNCING) unit/engine/walk/test_pace unit/engine/walk/test_prompts
# The first that opens all kernels in both shapes, and so builds them: whatever opened them beside it would build them
# again, so it begins before tests that need none; beside the first of the goldens, likewise, tokenizers are compared.
BUILDING = $(BUILD)/tests/ops/test_bank
# What of them is enough under the sanitizers, for the rest goes the same ways (of test_walk_cases all does); of what says how
# models are placed, each build has its half.
IDENTITY = unit/engine/session/test_identity
PARTLY   = ops/test_kinds ops/test_ops ops/test_token unit/engine/walk/test_walk_cases unit/engine/walk/test_pace \
           unit/engine/session/test_indexed $(IDENTITY)
# The tests' own text as it is written, so that the sanitizers see all that it reads.
asan-tests:
	$(MAKE) BUILD=$(ASAN) SANITIZE='address undefined' OPT='-O1 -g1 -fno-omit-frame-pointer' TEST_OPT=-O0 suite

check: tests asan-tests
	@sh tests/run.sh tests/layers.sh tests/covered.sh '--waiting $(SYNCING:%=$(BUILD)/tests/%)' \
	    tests/unit/compare_tokenizers.sh $(GOLDENS_CPU) \
	    '--waiting $(SCREENS)' $(BUILDING) \
	    $(filter-out $(BUILDING) $(addprefix $(BUILD)/tests/,$(SYNCING) $(IDENTITY)),$(TESTS)) \
	    '$(BUILD)/tests/$(IDENTITY) layers the_demo' '--waiting tests/sanitized_screens.sh' $(call GOLDENS_ON,ref) $(WARPS_FEW) \
	    tests/mutate/test_mutate.py tests/fault/test_eio.py \
	    '--waiting $(filter-out $(addprefix $(ASAN)/tests/,$(PARTLY)),$(WAITING:%=$(ASAN)/tests/%))' \
	    $(filter-out $(addprefix $(ASAN)/tests/,$(WAITING) $(PARTLY)),$(TESTS:$(BUILD)/%=$(ASAN)/%)) \
	    'env MOECHAT_TEST_SHAPE=cpu $(ASAN)/tests/ops/test_kinds not_opened' 'env MOECHAT_TEST_SHAPE=cpu $(ASAN)/tests/ops/test_ops' \
	    '$(ASAN)/tests/ops/test_token wrong groups' '$(ASAN)/tests/$(IDENTITY) small_models a_gguf' \
	    '$(ASAN)/tests/unit/engine/session/test_indexed splits records while' \
	    '$(ASAN)/tests/unit/engine/walk/test_pace demo five moonlight alike chooses matrix before' \
	    $(foreach f,$(FUZZ_SOURCES:tests/fuzz/fuzz_%.c=%),'$(ASAN)/tests/fuzz/fuzz_$(f) tests/fuzz/corpus/$(f)') \
	    'python3 tests/fuzz/whole.py --lanes 1 --count 60'

# The expert store and its readers under the thread sanitizer, and whole models in plain C: drivers are not instrumented.
TSAN       = build/tsan
TSAN_TESTS = $(addprefix unit/engine/experts/test_,reader store tiers copies) \
             fault/engine/experts/test_expert_faults fault/engine/experts/test_random_store unit/app/driver/test_worker
tsan:
	$(MAKE) BUILD=$(TSAN) SANITIZE=thread OPT='-O1 -g' $(TSAN_TESTS:%=$(TSAN)/tests/%) $(TSAN)/tests/unit/engine/session/test_placement \
	    $(TSAN)/tests/fault/engine/session/test_random_reads $(TSAN)/tests/soak/soak
	@sh tests/run.sh $(TSAN_TESTS:%=$(TSAN)/tests/%) '$(TSAN)/tests/unit/engine/session/test_placement plain_c' \
	    '$(TSAN)/tests/fault/engine/session/test_random_reads plain_c' \
	    '$(TSAN)/tests/soak/soak tests/golden/tiny-a/package --device ref --seconds 30'

# SOAK_SECONDS of interruptions, replays that must say the same, and memory that must not grow; a line a minute.
SOAK_SECONDS ?= 3600
# Shared out among the demo and a small model of each kind of layers: chosen rows, gated delta nets, KDA beside MLA, Kimi K3,
# chosen pools and residual streams.
SOAK_MODELS  ?= models/demo $(patsubst %,tests/golden/ck-%-mlx/checkpoint,v32 qwen35moe kimi-linear kimi-k3) \
    tests/golden/gguf-glm5-next/checkpoint
soak: export XDG_CACHE_HOME = $(abspath build)/cache
soak: $(BUILD)/tests/soak/soak
	$< $(SOAK_MODELS) --seconds $(SOAK_SECONDS)

# The power goes in POWER_LIVES random lives of a saved conversation, and of a conversion, and as many processes of a chat
# are killed at any time; make check leads a few.
POWER_LIVES ?= 10000
power: $(addprefix $(BUILD)/tests/fault/,app/store/test_power app/store/test_session_lives engine/convert/test_convert_power)
	for t in $^; do MOECHAT_POWER_LIVES=$(POWER_LIVES) $$t || exit 1; done

# EIO_RUNS of each kind on a disk that answers EIO at random; make check has 12.
EIO_RUNS ?= 500
eio: export XDG_CACHE_HOME = $(abspath build)/cache
eio: export MOECHAT_CONFIG = none
eio: $(PROGRAM) $(EIO)
	MOECHAT_EIO_RUNS=$(EIO_RUNS) python3 tests/fault/test_eio.py

# Memory under valgrind (minutes), kernels under oclgrind (hours); each says so when it is not installed.
valgrind: $(PROGRAM)
	@sh tests/valgrind.sh
oclgrind: $(TESTS)
	@sh tests/oclgrind.sh

# Every op that tensor cores have, all kinds, and whole models; MOECHAT_WARPS_SEED orders the warps. Minutes, of which the
# compiler takes most.
warps: export XDG_CACHE_HOME = $(abspath build)/cache
warps: export MOECHAT_CONFIG = none
warps: tests
	@LIMIT=3600 sh tests/run.sh $(WARPS_MORE)

# Which tests run which line, each measured by itself; then the mistakes that no test could notice, by file.
reach: tests
	python3 tests/mutate/reach.py
	python3 tests/mutate/reach.py --bare

# MUTATIONS one-line mistakes, chosen by MUTATION_SEED, and the test that notices each; an hour or two on two processors,
# and less with MUTATION_JOBS on more, or with --reached after `make reach`. make check tries three.
MUTATIONS ?= 200
MUTATION_SEED ?= 1
MUTATION_JOBS ?= 1
mutate: tests asan-tests
	python3 tests/mutate/mutate.py --count $(MUTATIONS) --seed $(MUTATION_SEED) --jobs $(MUTATION_JOBS) --sanitized --wide

# Memory against the plan, on a model of more than 4 GB (1 GB on disk: layers share files). Takes a minute or two.
MEMORY_MODEL = $(BUILD)/memory-model
$(MEMORY_MODEL)/model.json: $(BUILD)/tests/bench/synthetic
	@rm -rf $(MEMORY_MODEL)
	$< tests/bench/configs/moonlight.json $(MEMORY_MODEL) --layers 15 --distinct 3
test-memory: export XDG_CACHE_HOME = $(abspath build)/cache
test-memory: $(BUILD)/tests/memory/memory $(MEMORY_MODEL)/model.json
	@sh tests/run.sh '$(BUILD)/tests/memory/memory $(MEMORY_MODEL) 2048' \
	    '$(BUILD)/tests/memory/memory $(MEMORY_MODEL) 512 1536'
	@rm -rf $(MEMORY_MODEL)

# The quick half: no sanitizers, no screens.
unit: tests
	@sh tests/run.sh tests/layers.sh tests/covered.sh $(TESTS)
golden: tests
	@sh tests/run.sh $(GOLDENS_CPU) $(call GOLDENS_ON,ref)
# Those beyond 32768 tokens whose indexers take minutes.
test-long: tests
	@sh tests/run.sh $(foreach g,$(filter tests/golden/long-%,$(ALL_GOLDENS)),$(call LONG_RUN,$(g))) \
	    'env MOECHAT_TEST_KIND=every $(BUILD)/tests/ops/test_kinds'
# True widths of models that choose rows or keep states, random weights: PoCL beside plain C, which takes its time.
test-widths: export XDG_CACHE_HOME = $(abspath build)/cache
test-widths: export MOECHAT_CONFIG = none
test-widths: $(PROGRAM) $(BUILD)/tests/bench/synthetic
	@LIMIT=3600 sh tests/run.sh tests/golden/widths.py
screens: tests
	@sh tests/run.sh $(SCREENS)

# Random keys at the full screen, under the sanitizers; what readline keeps to its end is no leak of ours.
typist: asan-tests
	for seed in 1 2 3 4 5 6 7 8 9 10 11 12; do \
	    ASAN_OPTIONS=detect_leaks=0:handle_segv=2:allow_user_segv_handler=0 MOECHAT_PROGRAM=$(ASAN)/moechat \
	        python3 tests/screens/typist.py $$seed 2000 || exit 1; \
	done

# Folders of models and sessions, changed by chance, opened by the whole program for WHOLE_SECONDS; make check opens 60.
WHOLE_SECONDS ?= 60
whole: asan-tests
	python3 tests/fuzz/whole.py --seconds $(WHOLE_SECONDS) --seed $$(date +%s)

# Beside llama.cpp itself, on the same files: PEER_PYTHON has numpy, gguf and llama-cpp-python; without, it says so.
PEER_PYTHON ?= python3
test-llama: export XDG_CACHE_HOME = $(abspath build)/cache
test-llama: $(PROGRAM)
	$(PEER_PYTHON) tests/peers/llama_cpp_logits.py ./$(PROGRAM)

bench: $(PROGRAM) $(BENCHES)
	./$(PROGRAM) bench
	set -e; for b in $(BENCHES); do $$b; done
	python3 tests/bench/screen.py

# Searches for FUZZ_SECONDS with each target, starting from its corpus; findings land in build/fuzz.
fuzz: $(FUZZ_SOURCES:tests/fuzz/fuzz_%.c=fuzz-%)
fuzz-library:
	@$(MAKE) --no-print-directory CC=clang CXX=clang++ BUILD=build/fuzz SANITIZE='address undefined fuzzer-no-link' \
	    OPT='-O1 -g -DGGUF_FIRST_READ=4096' build/fuzz/libmoechat.a
fuzz-%: fuzz-library
	clang $(CPPFLAGS) $(CFLAGS) -O1 $(INCLUDES) $(PKG_CFLAGS) -fsanitize=address,undefined,fuzzer-no-link \
	    -c -o build/fuzz/$*.o tests/fuzz/fuzz_$*.c
	clang++ -fsanitize=address,undefined,fuzzer -o build/fuzz/fuzz_$* build/fuzz/$*.o build/fuzz/libmoechat.a $(PKG_LIBS)
	@mkdir -p build/fuzz/found/$*
	build/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -max_len=16384 -artifact_prefix=build/fuzz/found/ \
	    -print_final_stats=1 build/fuzz/found/$* tests/fuzz/corpus/$*

# What needs no other target that waits for the packages.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
$(OBJECTS) $(BUILD)/kernels_cl.c $(BUILD)/tests/fuzz/replay.o $(EIO) $(WARPS) asan-tests fuzz-library: | deps
endif

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

layers:
	sh tests/layers.sh

format:
	clang-format -i $(wildcard $(ROOMS:%=%/*.[ch]) tokenizer/*.cc tests/*.h tests/*/*.[ch]) $(TEST_SOURCES)

install: $(PROGRAM)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man5 $(DESTDIR)$(DATADIR)/models/demo
	install -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/moechat
	install -m 644 man/moechat.1 $(DESTDIR)$(MANDIR)/man1/
	install -m 644 man/moechat.5 man/moechat-model.5 man/moechat-session.5 man/moechat-trace.5 $(DESTDIR)$(MANDIR)/man5/
	install -d $(foreach f,bash-completion/completions zsh/site-functions fish/vendor_completions.d,$(DESTDIR)$(SHAREDIR)/$f)
	./$(PROGRAM) --config none --completion bash >$(DESTDIR)$(SHAREDIR)/bash-completion/completions/moechat
	./$(PROGRAM) --config none --completion zsh >$(DESTDIR)$(SHAREDIR)/zsh/site-functions/_moechat
	./$(PROGRAM) --config none --completion fish >$(DESTDIR)$(SHAREDIR)/fish/vendor_completions.d/moechat.fish
	install -m 644 $(wildcard models/demo/*.json models/demo/*.safetensors models/demo/*.experts models/demo/*.model) \
	    $(DESTDIR)$(DATADIR)/models/demo/

clean:
	rm -rf build moechat
