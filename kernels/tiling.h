// SPDX-License-Identifier: GPL-3.0-or-later
// What the kernels and their launcher agree on besides args.h: how a launch is cut into work-groups. Private to the
// room.
#ifndef MOECHAT_TILING_H
#define MOECHAT_TILING_H

#include "kernels/args.h"

// Second argument of every kernel; an op sets the fields that its kernel names.
struct tiling {
    arg_u32 rows_per_group; // output rows (or tokens) that one work-group computes
    arg_u32 n_groups;       // work-groups that share a range of jobs
    arg_u32 scratch_stride; // floats of scratch per work-group or row
    arg_u32 n_tiles;        // tiles of cache positions
};

// Work-items in a group, by shape of device.
#define ELEMENTS_GROUP 256 // element-wise ops

#define TEAM                 16   // GPU: the lanes that share a row
#define TEAMS                8    // GPU: teams in a group
#define TEAM_ROWS            4    // GPU: rows that a team computes together at most, to share each load of x
#define TEAM_FLIGHT          4    // GPU: units of weights that a lane loads at once
#define TEAM_INPUTS          4096 // GPU: inputs that a group keeps at hand
#define TEAM_MMA_ROWS        16   // NVIDIA's tensor cores: rows of a tile, one fragment
#define TEAM_MMA_MOST        128  // rows that a group computes at most, tile by tile
#define TEAM_ROW_WARPS(in)   ((in) <= 256 ? 1u : (in) <= 512 ? 2u : 4u) // its warps that have parts of a row of so many inputs
#define TEAM_MMA_INPUTS      8192 // and inputs that it keeps at hand
#define TEAM_SPAN_INPUTS     4096 // the same of kinds whose blocks it copies,
#define TEAM_SPAN_MOST       7168 // and of those whose blocks and grids leave room for V3's rows
#define Q_WORDS              16   // GPU: words of a row of kv_b's keys that a group computes
#define Q_PARTS              16   // GPU: work-items that share the rows
#define Q_FLIGHT             8    // GPU: rows that each loads at once
#define MATMUL_ITEMS         256  // GPU: work-items of a tile of a product
#define MATMUL_SLICES        4    // GPU: sums into which they cut each
#define MATMUL_DEPTH         32   // GPU: inputs of a tile
#define MATMUL_AHEAD         4    // GPU: chunks of inputs that are loaded ahead in small tiles; even
#define MATMUL_MOST          8    // GPU: tokens and outputs of a work-item at most
#define GROUP_HEADS          4    // GPU: heads that share each load of the cache
#define DECODE_STEP          16   // GPU: cache positions whose scores are summed together
#define MOST_TILES           256  // GPU: tiles of positions
#define PARTIAL_TAIL         4    // GPU: numbers behind the sums of a tile, whose rows lie at 16 bytes with them
#define MERGE_LANES          32   // GPU: columns of a group that merges them, each in ELEMENTS_GROUP / MERGE_LANES sums
#define MMA_ITEMS            128  // NVIDIA's tensor cores: work-items of a group of attention
#define MMA_HEADS            16   // and its heads
#define PLAIN_ITEMS          128  // work-items of a group of attention_plain
#define PLAIN_ROWS           64   // its rows: 16 a warp
#define PLAIN_TILE           32   // keys that are at hand together, from multiples of it
#define PLAIN_KEYS           128  // keys of a group that makes them
#define PLAIN_MAKER_ITEMS    256  // its work-items
#define PLAIN_RANK           512  // the shapes that it takes: kv_lora_rank,
#define PLAIN_KEY            128  // qk_nope_head_dim,
#define PLAIN_ROPE           64   // rope_dim,
#define PLAIN_VALUE          128  // v_head_dim
#define PRODUCT_CHUNK        64   // inputs of a product that are summed together
#define PRODUCT_OUTPUTS      128  // outputs of its tile
#define PRODUCT_WARP_OUTPUTS 32   // and of a warp
#define PRODUCT_ITEMS        (PRODUCT_OUTPUTS / PRODUCT_WARP_OUTPUTS * 32)
#define PRODUCT_MOST_TOKENS  64   // of a tile
#define PRODUCT_HEAD_TOKENS  32   // of one of heads, which have few outputs
#define PRODUCT_MOST_TAIL    8    // floats that a row's chunk has besides its halves
#define SPLIT_ITEMS          256  // work-items that lay out x, eight for a chunk
#define MOST_VALUES          512  // GPU: columns of the values that a group adds up
#define PREFILL_ITEMS        256  // GPU: work-items of a group of attention_prefill
#define PREFILL_GROUP        16   // GPU: heads of one
#define ATTENTION_TILE       64   // CPU: cache positions whose scores are summed together, from multiples of it
#define ROUTER_LANES         256  // GPU
#define GQA_ITEMS            256  // GPU: work-items of a group of grouped attention
#define GQA_LANES            16   // GPU: its lanes, heads of rows
#define INDEX_ITEMS          128  // GPU: work-items, and positions, of a group of index scores
#define INDEX_F16_ITEMS      128  // NVIDIA's tensor cores, keys of float16: its work-items
#define INDEX_F16_HEADS      64   // heads at most
#define INDEX_TILE           32   // keys that are multiplied together
#define INDEX_TILES          4    // tiles of them at hand or on their way
#define INDEX_MMA_ITEMS      256  // keys of float32: its work-items
#define INDEX_MMA_STAGE      16   // heads that it brings together
#define INDEX_MMA_STAGES     4    // that are at hand
#define CHOICE_PART          8192 // GPU: positions of a part of a row that several groups choose from, at least
#define CHOICE_PARTS         16   // GPU: parts at most
#define CHOICE_LEVELS        3    // in which a number is found, from the top: by 11, 11 and 10 bits
#define CHOICE_BINS          2048 // of a level
#define HEAD_LANES           128  // GPU: that share a head's norm
#define SCAN_ITEMS           128  // GPU: work-items of a group of the delta scan
#define SCAN_COLUMNS         16   // GPU: columns of the state of a group
#define SCAN_TOKENS          8    // tokens whose keys and gates are prepared together
#define CONV_ROWS            64   // GPU: rows of a group of the convolution
#define NORM_LANES           256  // GPU: that share a row's norm; no kernel has more, some drivers give no more
#define TURNED_HEADS         8    // GPU: heads of q that a group turns
#define BLOCK                128  // CPU: inputs of a block whose words are taken apart plane by plane
#define VECTOR               16   // CPU: lanes of a vector
#define PACKED_UNIT          42   // CPU: floats that 32 inputs take at most when packed: themselves and sums, or parts,
#define PACKED_SUMS          272  // or, in kinds of 2 bits, 16 sums of each two, and sums
#define MATMUL_ROWS          12   // CPU: outputs that share each load of x
#define MATMUL_TOKENS        128  // CPU: tokens that share each dequantised weight
#define MATMUL_INPUTS        256  // CPU: inputs of a tile of dequantised weights
#define MERGE_COLUMNS        16   // CPU: columns that a group merges
#define TOKEN_ITEMS          256  // GPU: work-items of a group of a token's kernels; as many as ROUTER_LANES
#define TOKEN_INPUTS         8192 // and what it has room for: inputs of any matrix,
#define TOKEN_KIND_INPUTS    3072 // of a kind's, no more than a chunk of any: blocks want room, too,
#define TOKEN_EXPERTS        512  // and experts
#define COPY_GROUP_BYTES     65536

#endif
