// The evaluation of mappings on a sparse design, with the numbers that a search compares: cycles, energy, legality.
//
// The compiled form of sparse_design.py, sparse_tiles.py, sparse_savings.py and sparse_accesses.py of model/, for eight mappings
// at once; these modules explain the numbers. Tests compare both forms bit for bit (tests/sparse/test_compiled_sparse.py). Lanes
// in which Timeloop aborts on an assertion, or in which its numbers are undefined, are marked as `aborted`.

#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "counts.hpp"
#include "density.hpp"
#include "evaluate.hpp"

namespace fadiff::sparse {

// Limits of the compiled form: ranks of a format, levels, loops of a mapping, dimensions.
constexpr int MOST_RANKS = 8, MOST_LEVELS = 16, MOST_LOOPS = 512, MOST_DIMS = 64;

// Excess, in octaves, of a mapping that only the sparse analysis rejects. Set by hand.
constexpr double REJECTED = 1.0;

// Timeloop's table: words per vector access -> least blocks of a tile at which it assumes that compressed words fill their
// blocks, for densities from 0.1, 0.2, ..., 1.0 on.
extern const std::map<std::int64_t, std::array<int, 10>> VECTOR_THRESHOLDS;

// ---- Constants of one layer on a sparse design; names and units are those of inputs/spec/sparse_optimizations.py.

enum class RankKind { COORDINATE_PAYLOAD, RUN_LENGTH, BITMASK, UNCOMPRESSED_BITMASK, OFFSET_PAIR };

struct RankFormat {
    RankKind kind;
    std::vector<Dims> groups;     // groups of dimensions whose loops may be flattened into the rank; empty: any single loop
    double metadata_bits, payload_bits;
};

// The fiber tree in which a level stores a tensor, innermost rank first.
struct Representation {
    std::vector<RankFormat> ranks;
    bool inner_to_outer = false, compressed = false;
};

// (target, leaders): accesses to the target that are saved where a leader is empty. Of the alternatives of a choice one is taken.
using ConditionedAccess = std::pair<int, std::vector<int>>;
using Choice = std::vector<ConditionedAccess>;

// Kinds of access, in the order in which energies are added up.
enum Happening { ACTUAL, GATED, SKIPPED };
constexpr int HAPPENINGS = 3;
enum Access { READ, FILL, UPDATE };
constexpr int ACCESSES = 3;
using ActionEnergies = std::array<std::array<double, ACCESSES>, HAPPENINGS>;  // pJ

struct SparseLevel {
    bool decompresses = false, compresses = false;
    double metadata_limit = 0;                    // most bits of metadata
    double word_bits = 1, metadata_width = 0, metadata_word_bits = 0;
    ActionEnergies data{};                        // per vector access
    ActionEnergies metadata{};                    // per access of the metadata's memory
    double decompression = 0, compression = 0, leak = 0;
    std::vector<Choice> gating, skipping, spatial_skipping;
};

struct SparseDesign {
    Layer layer;                                  // the dense layer
    Layer wires;                                  // the dense layer with only the energies of interconnects
    std::vector<SparseLevel> levels;
    std::vector<Representation> formats;          // [L][T]; no ranks: stored uncompressed
    bool formatted = false, skips_instances = false, gates_computes = false, skips_computes = false;
    double computes = 0;                          // of the dense problem
    std::array<double, HAPPENINGS> compute_energy{};
    std::vector<DensityModel> models;             // [T]
    std::vector<double> operand_density;          // [T]; of single words, rounded to a millionth
    std::vector<double> block;                    // [L][T]; elements of a vector access

    const Representation* format(int level, int tensor) const {
        const Representation& own = formats[std::size_t(level) * layer.tensors + tensor];
        return own.ranks.empty() ? nullptr : &own;
    }
};

// ---- Loops, tiles and fiber trees of one mapping.

constexpr int BOX_BLOCK = 8;          // a box of points has a multiple of so many numbers, at most MOST_DIMS

struct NestLoop {
    double bound;
    int row;                          // row of Nest::points: the box that this loop and all loops inside it span
    std::uint8_t dim;
    bool spatial, on_y;
};

// The loops of a bound above 1, innermost first. The box of loop n is row n + 1.
struct Nest {
    std::vector<NestLoop> loops;
    std::vector<int> first;           // [L + 1]; the first loop of every level
    int width = 0;                    // numbers of a box: D, rounded up to whole vectors
    std::vector<double> points;       // [rows][width]; row 0 is a single iteration

    const double* box(int row) const { return points.data() + std::size_t(row) * width; }
    int row_of(int level) const { return first[level + 1]; }  // of the box of a level's tile
};

// Visits loops of a level of the mapping in one lane, innermost first: spatial loops (dimensions `across`) along X, then along Y,
// if the hardware has a fan-out; then temporal loops (dimensions `over`). Loops of bound 1 are visited, too.
template <typename Visit>
inline void each_loop(const Layer& layer, const MappingPack& pack, int lane, int level, Dims across, Dims over, Visit visit) {
    const int dims = layer.dims;
    const std::size_t at = std::size_t(level) * dims;
    if (across && layer.level[level].has_fanout())
        for (const bool on_y : {false, true})
            for (int i = 0; i < dims; ++i)
                if (const int d = pack.spatial_order[(at + i) * LANES + lane]; across >> d & 1 && pack.on_y[at + d][lane] == on_y)
                    visit(NestLoop{pack.spatial(level, dims)[d][lane], 0, std::uint8_t(d), true, on_y});
    for (std::size_t i = at; over; ++i)
        if (const int d = pack.order[i * LANES + lane]; over >> d & 1) {
            over ^= Dims(1) << d;
            visit(NestLoop{pack.temporal(level, dims)[d][lane], 0, std::uint8_t(d), false, false});
        }
}

// Copies points. Blocks of a fixed size are copied faster than D numbers.
inline void copy_points(const double* points, int width, double* into) {
    for (int i = 0; i < width; i += BOX_BLOCK) std::memcpy(into + i, points + i, BOX_BLOCK * sizeof *points);
}

// The ranks of a tile, innermost first.
struct FiberTree {
    int ranks = 0;
    double fibers[MOST_RANKS] = {};   // coordinates of a fiber
    Box below[MOST_RANKS + 1] = {};   // boxes below each rank, and the box of the outermost rank's fiber
};

struct StoredTile {
    bool kept = false;
    int parent = -1, child = -1;      // levels; -1: none
    const Representation* format = nullptr;
    Box box;
    FiberTree tree;

    bool compressed() const { return format && format->compressed; }
};

struct MappedTiles {
    Nest nest;
    std::vector<StoredTile> tiles;    // [L][T]
};

// The tile of a data space in a box of points [D]; only banded tensors have rows.
Box box_of(const SparseDesign& design, int tensor, const double* points);

// Fills in loops, tiles and trees of the mapping in one lane; false where the formats do not fit the mapping, or no level keeps
// a tensor.
bool lay_sparse_tiles(const SparseDesign& design, const MappingPack& pack, const Tiles& dense, int lane, MappedTiles& into);

// ---- Occupancies, savings, instances.

// Units of metadata and payload of one rank: expected numbers, or numbers at one occupancy.
template <typename Number>
struct RankUnits {
    Number metadata, payload;

    static constexpr Number RankUnits::*EACH[] = {&RankUnits::metadata, &RankUnits::payload};
};

// The occupancy of one tile, and numbers that depend only on it.
struct Occupancy {
    double used = 1, density = 1, nonzeros = 0;
    double metadata_units = 0;                    // of all ranks together
    double most_words = 0, most_bits = 0;         // at the largest occupancy: words, bits of metadata
    double block_ratio = 1;                       // negative: Timeloop aborts on an assertion about accesses to this tile
    bool rejected = false;                        // whether Timeloop aborts on the tile itself
    RankUnits<double> units[MOST_RANKS] = {};     // expected units of every rank
};

// The properties of a tile on which its occupancy depends.
struct TileShape {
    int tensor, level;                            // the level has the format
    bool known_empty;                             // whether the parent sends no empty tiles
    Box box;
    const FiberTree* tree;
};

// Cached numbers of tensors whose distribution is not fixed, as a search meets the same tiles many times; and scratch for
// tensors of fixed distributions.
class Met {
public:
    const Occupancy& occupancy(const SparseDesign& design, const TileShape& shape);
    double empty(const SparseDesign& design, int tensor, const Box& box);  // negative where Timeloop aborts
    const Histogram& histogram(const SparseDesign& design, int tensor, const Box& box);

    struct {
        Lanes fibers[MOST_RANKS], below[MOST_RANKS], empty[MOST_RANKS];
        RankUnits<Lanes> fewer[MOST_RANKS], more[MOST_RANKS];
    } scratch;

private:
    std::unordered_map<std::string, Occupancy> tiles_;
    std::unordered_map<std::string, double> empty_;
    std::unordered_map<std::string, Histogram> histograms_;
};

// The occupancies of the tiles of one data space at one level, see Occupancy.
struct Occupancies {
    Lanes used = 1.0, density = 1.0, nonzeros, metadata_units, most_words, most_bits, block_ratio = 1.0;
    unsigned rejected = 0;              // a bit for each lane
    int ranks = 0;                      // ranks of the format, 0 without a format
    Mask counted[MOST_RANKS];           // whether a rank has a cost
    RankUnits<Lanes> units[MOST_RANKS];

    void set(int lane, const Occupancy& one);
};

// Accesses to the tiles of one data space at one level that eight mappings save; a bit for each lane.
struct Savings {
    unsigned lanes = 0, gated = 0;    // lanes that save accesses, and lanes that gate instead of skip them
    bool spatial = false;             // whether all `lanes` skip instances; the level's own accesses stay
    Lanes probability;
};

// Instances of one unit in use for one data space: the most along X and Y, and the average number.
struct Instances {
    Lanes x, y, average;
};

// The tiles of eight mappings on their way through an evaluation.
struct SparseTiles {
    std::vector<MappedTiles> mapped;         // [LANES]
    std::vector<Occupancies> occupancies;    // [L][T]
    std::vector<Savings> savings;            // [L][T]
    std::vector<unsigned> kept;              // [L][T]; lanes that keep a tile, a bit each
    std::vector<Instances> instances;        // [L + 1][T]; the arithmetic first

    // Instances of a unit in use on average, for the data space that uses most.
    Lanes units(int unit, int tensors) const {
        Lanes most = 0.0;
        for (int t = 0; t < tensors; ++t) most = larger(most, instances[std::size_t(unit) * tensors + t].average);
        return most;
    }
};

// Fills in the lanes whose mapping keeps the tile, a bit each; numbers of other lanes are undefined.
void find_occupancies(const SparseDesign& design, const std::vector<MappedTiles>& mapped, Lanes words, int tensor, int level,
                      unsigned kept, Met& met, Occupancies& into);

// The probability that a tile of this box holds no nonzero; negative where Timeloop aborts.
inline double empty_share(const SparseDesign& design, int tensor, const Box& box, Met& met) {
    const DensityModel& model = design.models[tensor];
    return model.kind == DensityModel::FIXED ? model.empty(box) : met.empty(design, tensor, box);
}

// Adds the savings of one lane; false where neither the level nor a level further out stores a target.
bool find_savings(const SparseDesign& design, const MappingPack& pack, SparseTiles& tiles, int lane, Met& met);

// Fills in instances: the instances that a mapping spans, minus those whose tiles are empty on average. If the design skips
// instances, adds the resulting savings of accesses in the given lanes (a bit each). Returns the lanes in which every unit has
// enough instances, and at least one arithmetic unit is in use.
unsigned find_instances(const SparseDesign& design, const Workspace& dense, unsigned lanes, SparseTiles& tiles, Met& met);

// ---- Accesses and cost.

// Accesses of one kind: of data words, and of the metadata of every rank.
struct AccessCounts {
    Counts words;
    RankUnits<Counts> units[MOST_RANKS];
};

// A tile's accesses: part 0 are the accesses that happen; part 1, at a level that saves accesses, the saved accesses.
struct TileAccesses {
    AccessCounts of[ACCESSES][2];
    unsigned saving;                  // lanes that save accesses, a bit each; 0: there is no part 1
    Mask gated;                       // lanes in which the accesses of part 1 are gated; in other lanes they are skipped
    Counts compressions, decompressions;

    int parts() const { return saving ? 2 : 1; }
    Counts busy(Access access) const {
        const Counts happening = of[access][0].words;
        return saving ? happening + where(gated, of[access][1].words) : happening;
    }
};

struct SparseCost {
    Lanes cycles, energy;             // pJ, without interconnects
    Mask legal;                       // lanes that Timeloop accepts
};

// Scratch that every evaluation fills anew.
struct CostWork {
    std::vector<TileAccesses> accesses;          // [L]; of one data space
    std::vector<Lanes> energies;                 // [L][T]; of all instances, without leakage
    std::vector<Lanes> read, written, leaking;   // [L]; demanded words per cycle; leaking instances

    explicit CostWork(const Layer& layer)
        : accesses(layer.levels), energies(std::size_t(layer.levels) * layer.tensors), read(layer.levels),
          written(layer.levels), leaking(layer.levels) {}
};

// The cost of mappings whose dense counts lie in `dense`.
SparseCost find_cost(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, CostWork& work);

// Evaluates mappings; one for each thread.
class SparseEvaluator {
public:
    explicit SparseEvaluator(std::shared_ptr<const SparseDesign> design);

    // Scores of the mappings in `dense.pack`, which has all orders (MappingPack::whole); numbers of illegal mappings are 0.
    // Tiles and counts of the dense design are left in `dense`.
    void evaluate(Workspace& dense, Scores* scores);

private:
    std::shared_ptr<const SparseDesign> design_;
    Met met_;
    SparseTiles tiles_;
    CostWork cost_;
};

}  // namespace fadiff::sparse
