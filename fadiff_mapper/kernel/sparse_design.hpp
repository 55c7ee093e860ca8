// Constants of one layer on a sparse design: what its hardware does about zeros. Names and units are those of
// spec/sparse_optimizations.py and sparse/action_energies.py; sparse/compiled_design.py builds a design.

#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "layer.hpp"

namespace fadiff::sparse {

constexpr int MOST_RANKS = 4;     // ranks of a format, levels, loops in all: designs with more are left to Python
constexpr int MOST_LEVELS = 16, MOST_LOOPS = 256;

// A *box* stands for the extents of a tile in one number: the words in it, or, of a tensor of two ranks whose density
// depends on the extents, the first extent times this side plus the second one.
constexpr double BOX_SIDE = 1 << 26;

enum class RankKind { COORDINATE_PAYLOAD, RUN_LENGTH, BITMASK, UNCOMPRESSED_BITMASK, OFFSET_PAIR };

struct RankFormat {
    RankKind kind;
    std::vector<Dims> groups;     // of dimensions whose loops may be flattened into the rank; none takes any single loop
    double metadata_bits, payload_bits;
};

// The fiber tree in which a level stores a tensor, innermost rank first.
struct Representation {
    std::vector<RankFormat> ranks;
    bool inner_to_outer = false, compressed = false;
};

// Accesses to a tensor that are saved where one of its leaders is empty, as alternatives of which one is taken.
struct ConditionedAccess {
    int target;
    std::vector<int> leaders;
};
using Choice = std::vector<ConditionedAccess>;

// Kinds of access, in the order in which energies are added up.
enum Happening { ACTUAL, GATED, SKIPPED };
constexpr int HAPPENINGS = 3;
enum Access { READ, FILL, UPDATE };
constexpr int ACCESSES = 3;

struct SparseLevel {
    bool decompresses = false, compresses = false;
    double metadata_limit = 0;                    // bits that fit
    double word_bits = 1, metadata_width = 0, metadata_word_bits = 0;
    double data[HAPPENINGS][ACCESSES] = {};       // pJ per vector access
    double metadata[HAPPENINGS][ACCESSES] = {};   // pJ per access of the metadata's memory
    double decompression = 0, compression = 0, leak = 0;
    std::vector<Choice> gating, skipping;
};

struct Units {
    double metadata = 0, payload = 0;
};

// sparse/tile_occupancy.py, Occupancy, and what follows from it alone.
struct Occupancy {
    double used = 1, density = 1, nonzeros = 0;
    double metadata_units = 0;                    // of all ranks together
    double most_words = 0, most_bits = 0;         // at the largest occupancy: words, bits of metadata
    double block_ratio = 1;                       // see sparse/level_cost.py
    bool aborts = false;                          // Timeloop ends on an assertion about accesses to this tile
    bool rejected = false;                        // Timeloop ends on this tile as such
    Units units[MOST_RANKS];                      // expected ones of every rank
};

// A tile as far as its occupancy depends on it.
struct TileShape {
    int tensor, level;                            // the level tells the format
    bool known_empty;                             // the parent sends no empty tiles
    double box;
    int ranks;                                    // 0 without a format
    double fibers[MOST_RANKS], below[MOST_RANKS + 1];
};

struct SparseDesign {
    Layer layer;                                  // the dense layer
    Layer wires;                                  // the same, all energies 0 but those of interconnects
    std::vector<SparseLevel> levels;
    std::vector<Representation> formats;          // [L][T]; no ranks: stored plainly
    bool formatted = false, gates_computes = false, skips_computes = false;
    double computes = 0;                          // of the dense problem
    double compute_energy[HAPPENINGS] = {};
    std::vector<double> density;                  // [T]; of tensors of a fixed structure, else negative
    std::vector<std::uint8_t> shaped;             // [T]; whether the density depends on extents, see BOX_SIDE
    std::vector<double> operand_density;          // [T]; of single words, rounded to a millionth

    // Of the other distributions Python computes the numbers; they are kept, as a search meets the same tiles again.
    std::function<Occupancy(const TileShape&)> occupancy_of;
    std::function<double(int, double)> empty_of;  // (tensor, box) -> probability that a tile is empty; < 0: Timeloop ends

    const Representation* format(int level, int tensor) const {
        const Representation& own = formats[std::size_t(level) * layer.tensors + tensor];
        return own.ranks.empty() ? nullptr : &own;
    }
};

}  // namespace fadiff::sparse
