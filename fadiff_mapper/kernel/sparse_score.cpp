#include "sparse_score.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fadiff::sparse {

namespace {

// What the accesses of one data space cost at one level.
struct TileCost {
    double energy = 0;                // pJ per instance in use
    double read = 0, write = 0;       // words per cycle and instance that are asked for
    double clusters = 0, addresses = 0;
};

// Instances of a level in use for one data space.
struct Instances {
    double most, average;
};

// Bits of metadata that accesses of one kind touch.
Count format_bits(const StoredTile& tile, const UnitCounts* units) {
    Count bits = 0;
    for (int rank = 0; rank < tile.tree.ranks; ++rank) {
        if (!tile.tree.counts(rank)) continue;
        const RankFormat& format = tile.format->ranks[rank];
        bits += Count(format.metadata_bits) * units[rank].metadata + Count(format.payload_bits) * units[rank].payload;
    }
    return bits;
}

// Bits of metadata that the accesses to one tile touch.
struct MetadataBits {
    Count of[ACCESSES][2] = {};       // by part, as in TileAccesses

    MetadataBits(const SparseLevel& level, const StoredTile& tile, const TileAccesses& accesses) {
        if (level.metadata_width == 0 || !tile.format) return;
        for (int access = 0; access < ACCESSES; ++access)
            for (int part = 0; part < accesses.parts(); ++part)
                of[access][part] = format_bits(tile, accesses.of[access][part].units);
    }
    Count busy(Access access, Happening saving) const { return of[access][0] + (saving == GATED ? of[access][1] : 0); }
};

// pJ of all actions of one cluster, added up in Timeloop's order.
double cluster_energy(const SparseLevel& level, double block, const MetadataBits& bits, double ratio,
                      const TileAccesses& accesses) {
    double energy = 0;
    const Count words_of_block = Count(block);
    for (int part = 0; part < accesses.parts(); ++part)
        for (int access = 0; access < ACCESSES; ++access)
            if (const Count words = accesses.of[access][part].words) {
                const Count blocks = words_of_block == 1 ? words : words / words_of_block + (words % words_of_block != 0);
                energy += double(blocks) * ratio * level.data[accesses.happening(part)][access];
            }
    for (int access = 0; access < ACCESSES; ++access)
        for (int part = 0; part < accesses.parts(); ++part)
            if (const Count own = bits.of[access][part])
                energy += std::ceil(double(own) / level.metadata_width) * level.metadata[accesses.happening(part)][access];
    energy += double(accesses.decompressions) * level.decompression;
    return energy + double(accesses.compressions) * level.compression;
}

// Words per cycle that are asked for; an instance that is used part of the time asks for less.
void count_bandwidth(const SparseLevel& level, const MetadataBits& bits, const TileAccesses& accesses, Instances instances,
                     double cycles, double scale, TileCost& cost) {
    if (!(instances.average > 0)) return;
    const Count word = Count(level.word_bits);
    const auto bits_of = [&](Access access) { return bits.busy(access, accesses.saving); };
    const Count read = accesses.busy(READ) + bits_of(READ) / word;
    const Count written = accesses.busy(FILL) + accesses.busy(UPDATE) + (bits_of(FILL) + bits_of(UPDATE)) / word;
    const double spread = instances.most / instances.average;
    if (spread == 0 || cycles == 0) throw Aborted();
    cost.read = std::ceil(double(read) / spread) / cycles * scale;
    cost.write = std::ceil(double(written) / spread) / cycles * scale;
}

// The share of the asked bandwidth that a level can give, at most 1.
double slowdown(const Layer& layer, int level, double read, double write) {
    double result = 1.0;
    const auto limit = [&](double given, double asked) {
        if (given < UNLIMITED && given < asked) result = std::min(result, given / asked);
    };
    limit(layer.read_bandwidth[level], read);
    limit(layer.write_bandwidth[level], write);
    limit(layer.shared_bandwidth[level], write + read);
    return result;
}

}  // namespace

Evaluator::Evaluator(std::shared_ptr<const SparseDesign> design)
    : design_(std::move(design)), dense_(design_->layer), candidates_(LANES),
      counts_(std::size_t(design_->layer.levels) * design_->layer.tensors), accesses_(counts_.size()) {}

// Tiles, occupancies, and the limits on which no count bears, of the mapping in one lane; false where Timeloop rejects the mapping.
bool Evaluator::prepare(const Mapping& mapping, int lane) {
    const Layer& layer = design_->layer;
    Candidate& candidate = candidates_[lane];
    if (!lay_sparse_tiles(*design_, mapping, dense_.tiles, lane, candidate.mapped)) return false;
    candidate.occupancies.resize(candidate.mapped.tiles.size());
    for (int level = 0; level < layer.levels; ++level)
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            if (!candidate.mapped.tiles[cell].kept) continue;
            find_occupancy(*design_, candidate.mapped, t, level, met_, candidate.occupancies[cell]);
            if (candidate.occupancies[cell].rejected) return false;
        }
    return fits(candidate)
        && find_savings(*design_, candidate.mapped, candidate.occupancies, met_, candidate.savings);
}

// Tiles count with their largest occupancy. A level with a size has a limit of metadata, too.
bool Evaluator::fits(const Candidate& candidate) const {
    const Layer& layer = design_->layer;
    for (int level = 0; level < layer.levels; ++level) {
        if (layer.usable[level] < 0) continue;
        double words = 0, bits = 0;
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            if (!candidate.mapped.tiles[cell].kept) continue;
            words += candidate.occupancies[cell].most_words;
            if (candidate.mapped.tiles[cell].format) bits += candidate.occupancies[cell].most_bits;
        }
        if (words > layer.usable[level] || bits > design_->levels[level].metadata_limit || words < layer.least[level])
            return false;
    }
    return true;
}

// Instances of every unit against those that the hardware has; of levels on average, where empty tiles are sent nowhere.
static bool instances_suffice(const Layer& layer, const MappedTiles& mapped, const std::vector<Occupancy>& occupancies,
                              const Tiles& tiles, int lane) {
    for (int unit = 0; unit <= layer.levels; ++unit) {
        const double x = tiles.used_x[unit][lane], y = tiles.used_y[unit][lane];
        double average = unit ? 0 : x * y;
        for (int t = 0; t < layer.tensors && unit; ++t) {
            const std::size_t cell = std::size_t(unit - 1) * layer.tensors + t;
            average = std::max(average, x * y * (mapped.tiles[cell].kept ? occupancies[cell].used : 1.0));
        }
        if (average > layer.units[unit].instances || x > layer.units[unit].mesh_x || y > layer.units[unit].mesh_y)
            return false;
    }
    return true;
}

// Accesses of the outermost level: the dense ones, as Timeloop counts them. `counts` [T][L].
static double outermost_accesses(const Layer& layer, const MappedTiles& mapped, const std::vector<Occupancy>& occupancies,
                                 const std::vector<DenseCounts>& counts, double instances) {
    double accesses = 0;
    for (int t = 0; t < layer.tensors; ++t) {
        const std::size_t cell = std::size_t(layer.levels - 1) * layer.tensors + t;
        if (!mapped.tiles[cell].kept) continue;
        const DenseCounts& own = counts[(t + 1) * layer.levels - 1];
        accesses += std::trunc(instances * occupancies[cell].used * (own.of[READ] + own.of[UPDATE] + own.of[FILL]));
    }
    return accesses;
}

// Accesses, computes, cycles and energy from the dense counts; false where Timeloop rejects the mapping.
bool Evaluator::finish(const Candidate& candidate, const Workspace& dense, int lane, Scores& scores) {
    const Layer& layer = design_->layer;
    const int levels = layer.levels, tensors = layer.tensors;
    const MappedTiles& mapped = candidate.mapped;
    if (!instances_suffice(layer, mapped, candidate.occupancies, dense.tiles, lane)) return false;
    double shares[64];
    for (int t = 0; t < tensors; ++t) {
        for (int level = 0; level < levels; ++level) {
            const std::size_t cell = std::size_t(level) * tensors + t;
            counts_[t * levels + level] = {{dense.reads[cell][lane], dense.fills[cell][lane], dense.updates[cell][lane]}};
        }
        save_accesses(*design_, mapped, candidate.occupancies, candidate.savings, &counts_[t * levels], t,
                      &accesses_[t * levels], shares[t]);
    }
    const Computes computes = save_computes(*design_, mapped, shares);
    const double cycles = std::ceil((computes.actual + computes.gated) / (dense.tiles.used_x[0][lane] * dense.tiles.used_y[0][lane]));
    double busy = cycles, leaking[MOST_LEVELS], own_energy[MOST_LEVELS][64];
    for (int level = 0; level < levels; ++level) {
        const SparseLevel& hardware = design_->levels[level];
        const double spanned = dense.tiles.used_x[level + 1][lane] * dense.tiles.used_y[level + 1][lane];
        double read = 0, write = 0;
        leaking[level] = 1;
        for (int t = 0; t < tensors; ++t) {
            const std::size_t cell = std::size_t(level) * tensors + t;
            const StoredTile& tile = mapped.tiles[cell];
            const Occupancy& occupancy = candidate.occupancies[cell];
            const Instances instances = {spanned, spanned * (tile.kept ? occupancy.used : 1.0)};
            leaking[level] = std::max(leaking[level], instances.average);
            own_energy[level][t] = 0;
            if (!tile.kept) continue;
            if (occupancy.aborts) return false;
            const TileAccesses& accesses = accesses_[t * levels + level];
            TileCost cost;
            cost.clusters = std::min(instances.most, layer.clusters[level]);
            const MetadataBits bits(hardware, tile, accesses);
            cost.energy = cluster_energy(hardware, layer.block[level], bits, occupancy.block_ratio, accesses);
            cost.energy = instances.average > 0 && cost.clusters != 0 ? cost.energy / (instances.most / cost.clusters) : 0.0;
            count_bandwidth(hardware, bits, accesses, instances, cycles, layer.bandwidth_scale[cell], cost);
            const Access inner = layer.spaces[t].written ? UPDATE : READ;
            cost.addresses = double(accesses.busy(inner) + accesses.busy(FILL));
            read += cost.read, write += cost.write;
            own_energy[level][t] = cost.energy * instances.average + cost.addresses * layer.address[level] * cost.clusters;
        }
        busy = std::max(busy, std::ceil(cycles / slowdown(layer, level, read, write)));
    }
    double energy = computes.actual * design_->compute_energy[ACTUAL] + computes.skipped * design_->compute_energy[SKIPPED]
        + computes.gated * design_->compute_energy[GATED];
    for (int level = 0; level < levels; ++level) {
        const double units = layer.gated[level] > 1 ? layer.gated[level] * leaking[layer.gate[level]] : leaking[level];
        const double leakage = design_->levels[level].leak * busy * units;
        double own = 0;
        for (int t = 0; t < tensors; ++t) own += own_energy[level][t] + leakage / tensors;
        energy += own;
    }
    const double outermost = dense.tiles.used_x[levels][lane] * dense.tiles.used_y[levels][lane];
    scores.last_level_accesses = outermost_accesses(layer, mapped, candidate.occupancies, counts_, outermost);
    scores.energy = energy + scores.energy;  // so far that of the interconnects
    scores.cycles = std::trunc(busy + layer.network_latency);
    return true;
}

void Evaluator::evaluate(const Mapping* const* mappings, int count, Scores* scores) {
    const Layer& wires = design_->wires;
    pack_mappings(wires, mappings, count, dense_.pack);
    lay_tiles(wires, dense_.pack, dense_.tiles);
    unsigned possible = 0;
    for (int lane = 0; lane < count; ++lane) possible |= unsigned(prepare(*mappings[lane], lane)) << lane;
    evaluate_tiles(wires, nullptr, possible, dense_, scores);
    for (int lane = 0; lane < count; ++lane) {
        bool legal = false;
        try {
            legal = (possible >> lane & 1) && finish(candidates_[lane], dense_, lane, scores[lane]);
        } catch (const Aborted&) {
        }
        scores[lane].legal = legal;
        if (legal) scores[lane].excess = 0;
        else scores[lane].cycles = scores[lane].energy = scores[lane].last_level_accesses = 0, scores[lane].excess += REJECTED;
    }
}

}  // namespace fadiff::sparse
