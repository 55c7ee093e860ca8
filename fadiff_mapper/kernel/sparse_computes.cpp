#include "sparse_computes.hpp"

namespace fadiff::sparse {

namespace {

constexpr double TOLERANCE = 0.00001;  // by how much Timeloop lets a probability leave [0, 1]

Lanes millionths(Lanes value) { return floor(value * 1e6 + 0.5) / 1e6; }

// The part of the accesses to an operand that its innermost saving level saves.
struct Share {
    Mask saves;
    Lanes probability;
};

Share share_of(const SparseDesign& design, const SparseTiles& tiles, int tensor) {
    unsigned met = 0;
    Share share = {mask_of(false), 0.0};
    for (int level = 0; level < design.layer.levels; ++level) {
        const Savings& own = tiles.savings[std::size_t(level) * design.layer.tensors + tensor];
        if (own.lanes & ~met) share.probability = select(mask_from(own.lanes & ~met), own.probability, share.probability);
        met |= own.lanes;
    }
    share.saves = mask_from(met);
    return share;
}

// The probabilities that an operand is nonzero, zero, and absent, given that its partner was accessed.
struct States {
    Lanes nonzero, zero, absent;
};

States states_of(double density, Mask has_metadata, const Share& partner, Mask& aborted) {
    const Lanes kept = Lanes(1.0) - millionths(partner.probability);
    aborted = aborted | (partner.saves & (kept == 0.0));
    const Lanes nonzero = select(partner.saves, Lanes(density) / kept, density), other = Lanes(1.0) - nonzero;
    for (Lanes probability : {nonzero, other})
        aborted = aborted | ~((probability >= -TOLERANCE) & (Lanes(1 + TOLERANCE) >= probability));
    const Lanes clamped = smaller(larger(other, 0.0), 1.0);
    return {smaller(larger(nonzero, 0.0), 1.0), where(~has_metadata, clamped), where(has_metadata, clamped)};
}

// Lanes whose innermost tile of a data space has a format.
Mask in_format(const SparseDesign& design, const SparseTiles& tiles, int tensor) {
    unsigned met = 0, formatted = 0;
    for (int level = 0; level < design.layer.levels; ++level) {
        const unsigned kept = tiles.kept[std::size_t(level) * design.layer.tensors + tensor] & ~met;
        if (design.format(level, tensor)) formatted |= kept;
        met |= kept;
    }
    return mask_from(formatted);
}

}  // namespace

Computes save_computes(const SparseDesign& design, const SparseTiles& tiles, Mask& aborted) {
    int operands[2], count = 0;
    for (int t = 0; t < design.layer.tensors; ++t)
        if (!design.layer.spaces[t].written) {
            if (count < 2) operands[count] = t;
            ++count;
        }
    if (count != 2) {
        aborted = mask_of(true);
        return {};
    }
    const int a = operands[0], b = operands[1];
    const Share shares[2] = {share_of(design, tiles, a), share_of(design, tiles, b)};
    Lanes left = design.computes;
    for (const Share& share : shares) left = left - where(share.saves, floor(left * share.probability));
    const Lanes total = floor(left);
    const States first = states_of(design.operand_density[a], in_format(design, tiles, a), shares[1], aborted);
    const States second = states_of(design.operand_density[b], in_format(design, tiles, b), shares[0], aborted);
    Lanes actual = total * (first.nonzero * second.nonzero), gated = 0.0, skipped = 0.0;
    const auto add = [&](Lanes amount, bool partnerless) {
        (partnerless && design.skips_computes ? skipped : design.gates_computes ? gated : actual) += amount;
    };
    add(total * (first.nonzero * second.zero + first.zero * second.nonzero), false);
    add(total * (first.nonzero * second.absent + first.absent * second.nonzero), true);
    add(total * (first.zero * second.zero), false);
    add(total * (first.zero * second.absent + first.absent * second.zero), true);
    const Lanes absent = total * (first.absent * second.absent);
    const Lanes error = floor(absolute(skipped + actual + gated + absent - total));
    aborted = aborted | ~(error < total * TOLERANCE);
    const Lanes lost = floor(skipped) + floor(gated) + floor(absent);
    return {total - lost, floor(gated), floor(skipped)};
}

}  // namespace fadiff::sparse
