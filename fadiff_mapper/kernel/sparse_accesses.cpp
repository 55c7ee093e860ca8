#include "sparse_accesses.hpp"

#include <algorithm>
#include <cmath>

namespace fadiff::sparse {

Count unsigned_of(double value) {
    if (std::abs(value) < 0x1p63) return Count(std::int64_t(value));
    if (!std::isfinite(value)) throw Aborted();
    const double rest = std::fmod(std::trunc(value), 0x1p64);  // beyond 2^53 doubles are multiples of large powers of 2
    return rest < 0 ? Count(0) - Count(-rest) : Count(rest);
}

namespace {

// The accesses of one level that are left while savings of outer levels are taken off.
struct Left {
    double words[ACCESSES];
    int ranks;
    UnitCounts units[ACCESSES][MOST_RANKS];
};

// Accesses to words that are stored. A density a last digit above 1 adds one access (a fault of Timeloop's).
double without_zeros(double count, double density) {
    const double sparsity = 1 - density;
    if (!std::isfinite(sparsity)) throw Aborted();
    return double(unsigned_of(count - std::floor(count * sparsity)));
}

void before_savings(const StoredTile& tile, const Occupancy& occupancy, const DenseCounts& counts, bool written,
                    Left& left) {
    left.ranks = tile.format ? tile.tree.ranks : 0;
    for (int access = 0; access < ACCESSES; ++access) {
        const double count = counts.of[access];
        left.words[access] = tile.format && (access != UPDATE || written) ? without_zeros(count, occupancy.density) : count;
        const double each = count / tile.words;
        for (int rank = 0; rank < left.ranks; ++rank) {
            left.units[access][rank] = {unsigned_of(std::ceil(occupancy.units[rank].metadata * each)),
                                        unsigned_of(std::ceil(occupancy.units[rank].payload * each))};
        }
    }
}

// Takes the savings of an outer level off; of metadata only rank 0, and only below a format of one rank.
void take_off(Left& left, double probability, int ranks_outside) {
    for (double& words : left.words) words -= std::floor(words * probability);
    if (ranks_outside != 1 || !left.ranks) return;
    const auto less = [&](Count count) { return unsigned_of(double(count) - std::floor(double(count) * probability)); };
    for (Access access : {FILL, READ}) {
        UnitCounts& units = left.units[access][0];
        units = {less(units.metadata), less(units.payload)};
    }
}

// Accesses of which none are saved.
void take_all(const Left& left, Access access, AccessCounts& into) {
    into.words = unsigned_of(left.words[access]);
    for (int rank = 0; rank < left.ranks; ++rank) into.units[rank] = left.units[access][rank];
}

// Only ranks that are sent to the child can be saved. `parts` [2].
void split_units(const Left& left, Access from, double probability, int saved_ranks, AccessCounts* parts) {
    for (int rank = 0; rank < left.ranks; ++rank) {
        const UnitCounts& units = left.units[from][rank];
        const auto saved = [&](Count count) { return rank < saved_ranks ? std::floor(double(count) * probability) : 0.0; };
        const Count metadata = unsigned_of(saved(units.metadata)), payload = unsigned_of(saved(units.payload));
        parts[0].units[rank] = {units.metadata - metadata, units.payload - payload};
        parts[1].units[rank] = {metadata, payload};
    }
}

// The accesses of a level that saves some.
void split(const Left& left, const Saving& saving, int saved_ranks, bool written, bool below_another, TileAccesses& into) {
    const double p = saving.probability;
    if (!std::isfinite(p)) throw Aborted();
    const Count reads = unsigned_of(left.words[READ]), updates = unsigned_of(left.words[UPDATE]);
    const Count saved_reads = unsigned_of(written ? std::ceil(double(reads) * p) : std::floor(double(reads) * p));
    const Count saved_updates = unsigned_of(std::floor(double(updates) * p));
    if (saved_ranks > left.ranks) throw Aborted();
    into.saving = saving.kind;
    into.of[READ][0].words = reads - saved_reads, into.of[READ][1].words = saved_reads;
    into.of[UPDATE][0].words = updates - saved_updates, into.of[UPDATE][1].words = saved_updates;
    take_all(left, FILL, into.of[FILL][0]);
    into.of[FILL][1] = {};
    // Below another level that saves Timeloop takes the metadata of reads from that of updates (a fault of its own).
    split_units(left, below_another ? UPDATE : READ, p, saved_ranks, into.of[READ]);
    split_units(left, UPDATE, p, saved_ranks, into.of[UPDATE]);
}

void no_saving(const Left& left, TileAccesses& into) {
    into.saving = ACTUAL;
    for (Access access : {READ, FILL, UPDATE}) take_all(left, access, into.of[access][0]);
}

// Compressions and decompressions, at levels that store plainly what their parent compresses.
void convert(const SparseDesign& design, const MappedTiles& mapped, int tensor, TileAccesses* accesses) {
    const int tensors = design.layer.tensors;
    for (int level = 0; level < design.layer.levels; ++level) {
        const StoredTile& tile = mapped.tiles[std::size_t(level) * tensors + tensor];
        if (!tile.kept || tile.compressed()) continue;
        if (tile.child >= 0 && mapped.tiles[std::size_t(tile.child) * tensors + tensor].compressed()) throw Aborted();
        if (tile.parent < 0 || !mapped.tiles[std::size_t(tile.parent) * tensors + tensor].compressed()) continue;
        if (design.layer.spaces[tensor].written)
            accesses[level].compressions = accesses[tile.parent].of[UPDATE][0].words;
        accesses[level].decompressions = accesses[level].of[FILL][0].words;
    }
}

}  // namespace

void save_accesses(const SparseDesign& design, const MappedTiles& mapped, const std::vector<Occupancy>& occupancies,
                   const std::vector<Saving>& savings, const DenseCounts* counts, int tensor, TileAccesses* accesses,
                   double& share) {
    const int levels = design.layer.levels, tensors = design.layer.tensors;
    const bool written = design.layer.spaces[tensor].written;
    const auto cell = [&](int level) { return std::size_t(level) * tensors + tensor; };
    Left left[MOST_LEVELS];
    std::uint64_t done = 0;
    for (int level = 0; level < levels; ++level) {
        const StoredTile& tile = mapped.tiles[cell(level)];
        if (!tile.kept) continue;
        before_savings(tile, occupancies[cell(level)], counts[level], written, left[level]);
        accesses[level].compressions = accesses[level].decompressions = 0;
    }
    const auto saved_ranks = [&](int level) {
        const int child = mapped.tiles[cell(level)].child;
        const Representation* format = mapped.tiles[cell(child < 0 ? level : child)].format;
        return format ? int(format->ranks.size()) : 0;
    };
    share = -1;
    for (int level = levels - 1; level >= 0; --level) {
        if (savings[cell(level)].kind == ACTUAL) continue;
        const Saving& saving = savings[cell(level)];
        int inner = level - 1;
        while (inner >= 0 && savings[cell(inner)].kind == ACTUAL) --inner;
        for (int other = std::max(inner, 0); other < level; ++other)
            if (mapped.tiles[cell(other)].kept) take_off(left[other], saving.probability, left[level].ranks);
        if (inner >= 0) {
            const Saving& own = savings[cell(inner)];
            if (saving.probability == 1) throw Aborted();
            const Saving rest = {own.kind, 1 - (1 - own.probability) / (1 - saving.probability)};
            split(left[inner], rest, saved_ranks(inner), written, true, accesses[inner]);
            done |= std::uint64_t(1) << inner;
        }
        if (!(done >> level & 1)) split(left[level], saving, saved_ranks(level), written, false, accesses[level]);
        done |= std::uint64_t(1) << level;
        share = saving.probability;
    }
    for (int level = 0; level < levels; ++level)
        if (mapped.tiles[cell(level)].kept && !(done >> level & 1)) no_saving(left[level], accesses[level]);
    convert(design, mapped, tensor, accesses);
}

namespace {

constexpr double TOLERANCE = 0.00001;  // by how much Timeloop lets a probability leave [0, 1]

double millionths(double value) { return std::floor(value * 1e6 + 0.5) / 1e6; }

// The probabilities that an operand is nonzero, and that it is not, given that its partner was accessed.
struct States {
    double nonzero, other;
    bool has_metadata;
    double zero() const { return has_metadata ? 0.0 : other; }
    double absent() const { return has_metadata ? other : 0.0; }
};

States states_of(double density, bool has_metadata, double partner_share) {
    double nonzero = density;
    if (partner_share >= 0) {
        const double kept = 1 - millionths(partner_share);
        if (kept == 0) throw Aborted();
        nonzero = density / kept;
    }
    const double other = 1 - nonzero;
    for (double probability : {nonzero, other})
        if (!(-TOLERANCE <= probability && probability <= 1 + TOLERANCE)) throw Aborted();
    return {std::min(std::max(nonzero, 0.0), 1.0), std::min(std::max(other, 0.0), 1.0), has_metadata};
}

}  // namespace

Computes save_computes(const SparseDesign& design, const MappedTiles& mapped, const double* shares) {
    const int tensors = design.layer.tensors;
    int operands[2], count = 0;
    for (int t = 0; t < tensors; ++t)
        if (!design.layer.spaces[t].written) {
            if (count == 2) throw Aborted();
            operands[count++] = t;
        }
    if (count != 2) throw Aborted();
    double left = design.computes;
    for (int t : operands)
        if (shares[t] >= 0) left -= std::floor(left * shares[t]);
    const double total = std::trunc(left);
    const auto in_format = [&](int t) {
        int level = 0;
        while (!mapped.tiles[std::size_t(level) * tensors + t].kept) ++level;
        return mapped.tiles[std::size_t(level) * tensors + t].format != nullptr;
    };
    const int a = operands[0], b = operands[1];
    const States first = states_of(design.operand_density[a], in_format(a), shares[b]);
    const States second = states_of(design.operand_density[b], in_format(b), shares[a]);
    double actual = total * (first.nonzero * second.nonzero), gated = 0, skipped = 0;
    const auto add = [&](double amount, bool partnerless) {
        (partnerless && design.skips_computes ? skipped : design.gates_computes ? gated : actual) += amount;
    };
    add(total * (first.nonzero * second.zero() + first.zero() * second.nonzero), false);
    add(total * (first.nonzero * second.absent() + first.absent() * second.nonzero), true);
    add(total * (first.zero() * second.zero()), false);
    add(total * (first.zero() * second.absent() + first.absent() * second.zero()), true);
    const double absent = total * (first.absent() * second.absent());
    if (!(std::trunc(std::abs(skipped + actual + gated + absent - total)) < total * TOLERANCE)) throw Aborted();
    const double lost = std::floor(skipped) + std::floor(gated) + std::floor(absent);
    return {total - lost, std::floor(gated), std::floor(skipped)};
}

}  // namespace fadiff::sparse
