#include "sparse.hpp"

namespace fadiff::sparse {

namespace {

// ---- Accesses and computes that are left of the dense ones.

Mask infinite(Lanes value) { return !(value - value == 0.0); }

// The accesses of one level that are left while savings of outer levels are taken off.
struct Left {
    Lanes words[ACCESSES];
    RankUnits<Counts> units[ACCESSES][MOST_RANKS];
};

class AccessSavings {
public:
    AccessSavings(const SparseDesign& design, const SparseTiles& tiles, int tensor, TileAccesses* accesses, Mask& aborted)
        : design_(design), tiles_(tiles), tensor_(tensor), written_(design.layer.spaces[tensor].written), accesses_(accesses),
          aborted_(aborted) {}

    void save(const Workspace& dense) {
        const int levels = design_.layer.levels;
        for (int level = 0; level < levels; ++level)
            if (kept(level)) before_savings(dense, level);
        for (int level = levels - 1; level >= 0; --level)
            if (savings(level).lanes) save_at(level);
        for (int level = 0; level < levels; ++level)
            if (kept(level)) take_rest(level);
    }

private:
    std::size_t cell(int level) const { return std::size_t(level) * design_.layer.tensors + tensor_; }
    unsigned kept(int level) const { return tiles_.kept[cell(level)]; }
    const Savings& savings(int level) const { return tiles_.savings[cell(level)]; }
    int ranks(int level) const { return tiles_.occupancies[cell(level)].ranks; }

    // Accesses to words that are stored. A density a last digit above 1 adds one access (a fault of Timeloop's).
    Lanes without_zeros(Lanes count, Lanes density) {
        const Lanes sparsity = Lanes(1.0) - density;
        aborted_ = aborted_ | infinite(sparsity);
        return rounded(truncated(count - floor(count * sparsity), aborted_));
    }

    void before_savings(const Workspace& dense, int level) {
        const Occupancies& occupancy = tiles_.occupancies[cell(level)];
        const Mask own = mask_from(kept(level));
        const Lanes counts[ACCESSES] = {where(own, dense.reads[cell(level)]), where(own, dense.fills[cell(level)]),
                                        where(own, dense.updates[cell(level)])};
        for (int access = 0; access < ACCESSES; ++access) {
            const bool stored = ranks(level) && (access != UPDATE || written_);
            left_[level].words[access] = stored ? without_zeros(counts[access], select(own, occupancy.density, 1.0)) : counts[access];
            if (!ranks(level)) continue;
            const Lanes each = counts[access] / dense.tiles.size[cell(level)];
            const auto units = [&](Lanes of_tile) { return truncated(where(own, ceil(of_tile * each)), aborted_); };
            for (int rank = 0; rank < ranks(level); ++rank)
                left_[level].units[access][rank] = {units(occupancy.units[rank].metadata),
                                                    units(occupancy.units[rank].payload)};
        }
        accesses_[level].saving = 0;
    }

    // Takes the savings of a level off those further in, as far as the next one that saves.
    void save_at(int level) {
        const Savings& outer = savings(level);
        unsigned active = outer.lanes;
        for (int inner = level - 1; inner >= 0 && active; --inner) {
            if (const unsigned own = active & kept(inner)) take_off(left_[inner], own, outer.probability, level, ranks(inner));
            const unsigned next = active & savings(inner).lanes;
            active &= ~next;
            if (next && !savings(inner).spatial) {
                const Lanes outside = Lanes(1.0) - outer.probability;
                aborted_ = aborted_ | (mask_from(next) & (outside == 0.0));
                split(inner, next, Lanes(1.0) - (Lanes(1.0) - savings(inner).probability) / outside, true);
            }
        }
        const unsigned lone = outer.lanes & ~accesses_[level].saving;
        if (lone && !outer.spatial) split(level, lone, outer.probability, false);
    }

    // Of metadata only rank 0, and only below a format of one rank.
    void take_off(Left& left, unsigned lanes, Lanes probability, int outside, int ranks_inside) {
        const Mask all_lanes = mask_from(lanes), own = mask_from(lanes & kept(outside));
        for (Lanes& words : left.words) words = words - where(all_lanes, floor(words * probability));
        if (ranks(outside) != 1 || !ranks_inside) return;
        const auto less = [&](Counts count) {
            const Lanes all = rounded(count);
            return select(own, truncated(all - where(own, floor(all * probability)), aborted_), count);
        };
        for (Access access : {FILL, READ}) {
            RankUnits<Counts>& units = left.units[access][0];
            units = {less(units.metadata), less(units.payload)};
        }
    }

    // Lanes in which metadata of a rank is sent to the child, and can be saved.
    Mask sent(int level, int rank) const {
        return mask_where([&](int lane) {
            const int child = tiles_.mapped[lane].tiles[cell(level)].child;
            return rank < ranks(child < 0 ? level : child);
        });
    }

    // The accesses of a level that saves some, in some lanes.
    void split(int level, unsigned lanes, Lanes probability, bool below_another) {
        const Mask own = mask_from(lanes);
        const Left& left = left_[level];
        TileAccesses& into = accesses_[level];
        aborted_ = aborted_ | (own & infinite(probability)) | (own & sent(level, ranks(level)));
        const Lanes p = where(own, probability);
        const Counts reads = truncated(left.words[READ], aborted_), updates = truncated(left.words[UPDATE], aborted_);
        const Lanes some = rounded(reads) * p;
        const auto put = [&](Counts part, Counts& to) { to = into.saving ? select(own, part, to) : part; };
        const auto put_words = [&](Access access, Counts all, Counts saved) {
            put(all - saved, into.of[access][0].words), put(saved, into.of[access][1].words);
        };
        put_words(READ, reads, truncated(written_ ? ceil(some) : floor(some), aborted_));
        put_words(UPDATE, updates, truncated(floor(rounded(updates) * p), aborted_));
        put_words(FILL, truncated(left.words[FILL], aborted_), 0);
        for (int rank = 0; rank < ranks(level); ++rank) {
            const Lanes saved = where(sent(level, rank), p);
            for (const auto unit : RankUnits<Counts>::EACH) {
                const auto put_units = [&](Access access, Access from) {
                    const Counts all = left.units[from][rank].*unit, some = truncated(floor(rounded(all) * saved), aborted_);
                    put(all - some, into.of[access][0].units[rank].*unit), put(some, into.of[access][1].units[rank].*unit);
                };
                // Below another level that saves Timeloop takes the metadata of reads from that of updates (a fault of its own).
                put_units(READ, below_another ? UPDATE : READ);
                put_units(UPDATE, UPDATE);
                put(left.units[FILL][rank].*unit, into.of[FILL][0].units[rank].*unit);
            }
            into.of[FILL][1].units[rank] = {};
        }
        into.saving |= lanes;
        into.gated = mask_from(savings(level).gated);
    }

    // The accesses of lanes that save none.
    void take_rest(int level) {
        TileAccesses& into = accesses_[level];
        const Mask saving = mask_from(into.saving);
        for (int access = 0; access < ACCESSES; ++access) {
            const auto put = [&](Counts all, Counts& happening, Counts& saved) {
                happening = into.saving ? select(saving, happening, all) : all;
                if (into.saving) saved = where(saving, saved);
            };
            AccessCounts *happening = &into.of[access][0], *saved = &into.of[access][1];
            put(truncated(left_[level].words[access], aborted_), happening->words, saved->words);
            for (int rank = 0; rank < ranks(level); ++rank)
                for (const auto unit : RankUnits<Counts>::EACH)
                    put(left_[level].units[access][rank].*unit, happening->units[rank].*unit, saved->units[rank].*unit);
        }
    }

    const SparseDesign& design_;
    const SparseTiles& tiles_;
    int tensor_;
    bool written_;
    TileAccesses* accesses_;
    Mask& aborted_;
    Left left_[MOST_LEVELS];
};

// Compressions and decompressions, at levels that store plainly what their parent compresses.
void convert(const SparseDesign& design, const SparseTiles& tiles, int tensor, TileAccesses* accesses, Mask& aborted) {
    const int levels = design.layer.levels, tensors = design.layer.tensors;
    const auto compressed = [&](int level) {
        const Representation* format = level < 0 ? nullptr : design.format(level, tensor);
        return format && format->compressed;
    };
    bool any = false;
    for (int level = 0; level < levels; ++level) {
        accesses[level].compressions = accesses[level].decompressions = 0;
        any |= compressed(level);
    }
    for (int level = 0; level < levels && any; ++level) {
        if (compressed(level)) continue;
        const std::size_t cell = std::size_t(level) * tensors + tensor;
        for (const int lane : members(tiles.kept[cell])) {
            const StoredTile& tile = tiles.mapped[lane].tiles[cell];
            if (compressed(tile.child)) aborted = aborted | mask_from(1u << lane);
            if (!compressed(tile.parent)) continue;
            if (design.layer.spaces[tensor].written)
                accesses[level].compressions.set(lane, accesses[tile.parent].of[UPDATE][0].words[lane]);
            accesses[level].decompressions.set(lane, accesses[level].of[FILL][0].words[lane]);
        }
    }
}

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
        aborted = aborted | !((probability >= -TOLERANCE) & (Lanes(1 + TOLERANCE) >= probability));
    const Lanes clamped = smaller(larger(other, 0.0), 1.0);
    return {smaller(larger(nonzero, 0.0), 1.0), where(!has_metadata, clamped), where(has_metadata, clamped)};
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

// The computes of the run.
struct Computes {
    Lanes actual, gated, skipped;
};

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
    aborted = aborted | !(error < total * TOLERANCE);
    const Lanes lost = floor(skipped) + floor(gated) + floor(absent);
    return {total - lost, floor(gated), floor(skipped)};
}

// ---- Their cost.

// Bits of metadata that the accesses to one tile touch.
struct MetadataBits {
    bool any = false;
    Counts of[ACCESSES][2] = {};      // by part, as in TileAccesses

    MetadataBits(const SparseLevel& level, const Representation* format, const Occupancies& occupancy,
                 const TileAccesses& accesses) {
        if (level.metadata_width == 0 || !format) return;
        any = true;
        for (int access = 0; access < ACCESSES; ++access)
            for (int part = 0; part < accesses.parts(); ++part)
                for (int rank = 0; rank < occupancy.ranks; ++rank) {
                    const RankFormat& own = format->ranks[rank];
                    const RankUnits<Counts>& units = accesses.of[access][part].units[rank];
                    of[access][part] = of[access][part] + where(occupancy.counted[rank],
                        units.metadata * Count(own.metadata_bits) + units.payload * Count(own.payload_bits));
                }
    }
    Counts busy(Access access, const TileAccesses& accesses) const {
        return accesses.saving ? of[access][0] + where(accesses.gated, of[access][1]) : of[access][0];
    }
};

// pJ of an action that happens (part 0), or that is gated or skipped (part 1).
Lanes action_energy(const ActionEnergies& energies, int access, int part, Mask gated) {
    return part ? select(gated, Lanes(energies[GATED][access]), Lanes(energies[SKIPPED][access])) : Lanes(energies[ACTUAL][access]);
}

// pJ of all actions of one cluster, added up in Timeloop's order.
Lanes cluster_energy(const SparseLevel& level, double block, const MetadataBits& bits, Lanes ratio,
                     const TileAccesses& accesses) {
    Lanes energy = 0.0;
    for (int part = 0; part < accesses.parts(); ++part)
        for (int access = 0; access < ACCESSES; ++access) {
            const Counts words = accesses.of[access][part].words;
            const Lanes blocks = divided_up(words, Count(block)) * ratio;
            energy += where(words != 0, blocks * action_energy(level.data, access, part, accesses.gated));
        }
    for (int access = 0; access < ACCESSES && bits.any; ++access)
        for (int part = 0; part < accesses.parts(); ++part)
            energy += ceil(rounded(bits.of[access][part]) / level.metadata_width)
                * action_energy(level.metadata, access, part, accesses.gated);
    energy += rounded(accesses.decompressions) * level.decompression;
    return energy + rounded(accesses.compressions) * level.compression;
}

// Whole words of a level that elements take.
Counts in_words(Counts elements, Lanes held, Count per) {
    Counts words;
    for (int lane = 0; lane < LANES; ++lane) {
        const Count all = elements[lane] * Count(held[lane]);
        words.set(lane, all / per + (all % per != 0));
    }
    return words;
}

}  // namespace

SparseCost find_cost(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, CostWork& work) {
    const Layer& layer = design.layer;
    Mask aborted = mask_of(false);
    const Computes computes = save_computes(design, tiles, aborted);
    const Lanes units = floor(tiles.units(0, layer.tensors));  // Timeloop counts whole ones here
    const Lanes cycles = ceil((computes.actual + computes.gated) / units);
    for (int level = 0; level < layer.levels; ++level)
        work.read[level] = work.written[level] = 0.0, work.leaking[level] = 1.0;
    for (int t = 0; t < layer.tensors; ++t) {
        AccessSavings(design, tiles, t, work.accesses.data(), aborted).save(dense);
        convert(design, tiles, t, work.accesses.data(), aborted);
        for (int level = 0; level < layer.levels; ++level) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            const Occupancies& occupancy = tiles.occupancies[cell];
            const Mask kept = mask_from(tiles.kept[cell]);
            const Instances& instances = tiles.instances[cell + layer.tensors];
            const Lanes most = instances.x * instances.y;
            work.leaking[level] = larger(work.leaking[level], instances.average);
            work.energies[cell] = 0.0;
            if (!tiles.kept[cell]) continue;
            aborted = aborted | (kept & (occupancy.block_ratio < 0.0));
            const SparseLevel& hardware = design.levels[level];
            TileAccesses& accesses = work.accesses[level];
            const MetadataBits bits(hardware, design.format(level, t), occupancy, accesses);
            for (int access = 0; access < ACCESSES && layer.packed(); ++access)
                for (int part = 0; part < accesses.parts(); ++part) {
                    Counts& words = accesses.of[access][part].words;
                    words = in_words(words, dense.stored[cell], Count(layer.per[cell]));
                }
            // Words per cycle that are asked for; an instance that is used part of the time asks for less.
            const Mask busy = kept & (instances.average > 0.0);
            Counts read = accesses.busy(READ), written = accesses.busy(FILL) + accesses.busy(UPDATE);
            if (bits.any) {
                const Count word = Count(hardware.word_bits);
                read = read + divided_down(bits.busy(READ, accesses), word);
                written = written + divided_down(bits.busy(FILL, accesses) + bits.busy(UPDATE, accesses), word);
            }
            const Lanes spread = most / instances.average;
            aborted = aborted | (busy & ((spread == 0.0) | (cycles == 0.0)));
            work.read[level] += where(busy, ceil(rounded(read) / spread) / cycles * layer.bandwidth_scale[cell]);
            work.written[level] += where(busy, ceil(rounded(written) / spread) / cycles * layer.bandwidth_scale[cell]);
            const Lanes clusters = smaller(layer.level[level].clusters, most);
            const Mask used = (instances.average > 0.0) & (clusters != 0.0);
            const Lanes each = cluster_energy(hardware, layer.level[level].block, bits, occupancy.block_ratio, accesses);
            const Lanes energy = where(used, each / (most / clusters));
            const Lanes addresses = rounded(accesses.busy(layer.spaces[t].written ? UPDATE : READ) + accesses.busy(FILL));
            work.energies[cell] = where(kept, energy * instances.average + addresses * layer.level[level].address * clusters);
        }
    }
    Lanes busy = cycles;
    for (int level = 0; level < layer.levels; ++level)
        busy = larger(busy, ceil(cycles / slowdown(layer.level[level], work.read[level], work.written[level])));
    Lanes energy = computes.actual * design.compute_energy[ACTUAL]
        + computes.skipped * design.compute_energy[SKIPPED] + computes.gated * design.compute_energy[GATED];
    for (int level = 0; level < layer.levels; ++level) {
        const Lanes leakage = busy * design.levels[level].leak * layer.leaking(level, work.leaking) / double(layer.tensors);
        Lanes own = 0.0;
        for (int t = 0; t < layer.tensors; ++t) own += work.energies[std::size_t(level) * layer.tensors + t] + leakage;
        energy += own;
    }
    return {floor(busy + layer.network_latency), energy, !aborted};
}

SparseEvaluator::SparseEvaluator(std::shared_ptr<const SparseDesign> design)
    : design_(std::move(design)), cost_(design_->layer) {
    const std::size_t cells = std::size_t(design_->layer.levels) * design_->layer.tensors;
    tiles_.mapped.resize(LANES);
    for (MappedTiles& mapped : tiles_.mapped) mapped.tiles.resize(cells);
    tiles_.occupancies.resize(cells), tiles_.savings.resize(cells), tiles_.kept.resize(cells);
    tiles_.instances.resize(cells + design_->layer.tensors);
}

void SparseEvaluator::evaluate(Workspace& dense, Scores* scores) {
    const Layer& layer = design_->layer;
    lay_tiles(design_->wires, dense.pack, dense.tiles);
    unsigned possible = 0;  // lanes that Timeloop does not reject
    for (int lane = 0; lane < dense.pack.count; ++lane)
        possible |= unsigned(lay_sparse_tiles(*design_, dense.pack, dense.tiles, lane, tiles_.mapped[lane])) << lane;
    for (int level = 0; level < layer.levels; ++level)
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            tiles_.kept[cell] = dense.pack.keep[cell].bits() & possible;
            find_occupancies(*design_, tiles_.mapped, dense.tiles.size[cell], t, level, tiles_.kept[cell], met_,
                             tiles_.occupancies[cell]);
            possible &= ~(tiles_.occupancies[cell].rejected & tiles_.kept[cell]);
        }
    // Tiles must fit with their largest occupancy. A level with a size has a limit of metadata, too.
    for (int level = 0; level < layer.levels; ++level) {
        if (layer.level[level].usable < 0) continue;
        Lanes words = 0.0, bits = 0.0;
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            const Mask kept = mask_from(tiles_.kept[cell]);
            Lanes most = tiles_.occupancies[cell].most_words;
            if (layer.packed()) most = ceil(most * layer.partial[cell] / layer.per[cell]);
            words += where(kept, most);
            if (tiles_.occupancies[cell].ranks) bits += where(kept, tiles_.occupancies[cell].most_bits);
        }
        const Mask broken = (words > layer.level[level].usable) | (bits > design_->levels[level].metadata_limit)
            | (words < layer.level[level].least);
        possible &= ~broken.bits();
    }
    for (Savings& savings : tiles_.savings) savings.lanes = savings.gated = savings.spatial = 0;
    for (const int lane : members(possible)) {
        if (!find_savings(*design_, dense.pack, tiles_, lane, met_)) possible &= ~(1u << lane);
    }
    for (unsigned& kept : tiles_.kept) kept &= possible;
    possible = find_instances(*design_, dense, possible, tiles_, met_);
    for (unsigned& kept : tiles_.kept) kept &= possible;
    for (Savings& savings : tiles_.savings) savings.lanes &= possible;
    possible &= ~evaluate_tiles(design_->wires, nullptr, possible, dense, scores);
    SparseCost cost;
    Lanes accesses = 0.0;  // of the outermost level: the dense ones, as Timeloop counts them
    if (possible) {
        cost = find_cost(*design_, tiles_, dense, cost_);
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(layer.levels - 1) * layer.tensors + t;
            const Lanes each = dense.reads[cell] + dense.updates[cell] + dense.fills[cell];
            accesses += where(mask_from(tiles_.kept[cell]), floor(tiles_.instances[cell + layer.tensors].average * each));
        }
        possible &= cost.legal.bits();
    }
    for (int lane = 0; lane < dense.pack.count; ++lane) {
        Scores& own = scores[lane];
        own.legal = possible >> lane & 1;
        if (own.legal) {
            own.cycles = cost.cycles[lane], own.last_level_accesses = accesses[lane], own.excess = 0;
            own.energy = cost.energy[lane] + own.energy;  // so far that of the interconnects
        } else {
            own.cycles = own.energy = own.last_level_accesses = 0;
            own.excess += REJECTED;
        }
    }
}

}  // namespace fadiff::sparse
