#include "sparse_cost.hpp"

#include "sparse_computes.hpp"

namespace fadiff::sparse {

namespace {

// Instances of a level in use for one data space.
struct Instances {
    Lanes most, average;
};

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
                    const UnitCounts& units = accesses.of[access][part].units[rank];
                    of[access][part] = of[access][part] + where(occupancy.counted[rank],
                        units.metadata * Count(own.metadata_bits) + units.payload * Count(own.payload_bits));
                }
    }
    Counts busy(Access access, const TileAccesses& accesses) const {
        return accesses.saving ? of[access][0] + where(accesses.gated, of[access][1]) : of[access][0];
    }
};

// pJ of an action that happens (part 0), or that is gated or skipped (part 1).
Lanes action_energy(const double energies[HAPPENINGS][ACCESSES], int access, int part, Mask gated) {
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

// The share of the asked bandwidth that a level can give, at most 1.
Lanes slowdown(const Layer& layer, int level, Lanes read, Lanes written) {
    Lanes result = 1.0;
    const auto limit = [&](double given, Lanes asked) {
        if (given < UNLIMITED) result = select(asked > given, smaller(result, Lanes(given) / asked), result);
    };
    limit(layer.read_bandwidth[level], read);
    limit(layer.write_bandwidth[level], written);
    limit(layer.shared_bandwidth[level], written + read);
    return result;
}

// Instances of every unit against those that the hardware has; of levels on average, where empty tiles are sent nowhere.
Mask instances_suffice(const Layer& layer, const SparseTiles& tiles, const Workspace& dense) {
    Mask enough = mask_of(true);
    for (int unit = 0; unit <= layer.levels; ++unit) {
        const Lanes x = dense.tiles.used_x[unit], y = dense.tiles.used_y[unit], spanned = x * y;
        Lanes average = unit ? Lanes(0.0) : spanned;
        for (int t = 0; t < layer.tensors && unit; ++t) {
            const std::size_t cell = std::size_t(unit - 1) * layer.tensors + t;
            average = larger(average, spanned * select(dense.pack.keep[cell], tiles.occupancies[cell].used, 1.0));
        }
        const Unit& own = layer.units[unit];
        enough = enough & ~(average > own.instances) & ~(x > own.mesh_x) & ~(y > own.mesh_y);
    }
    return enough;
}

class CostSum {
public:
    CostSum(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, CostWork& work)
        : design_(design), layer_(design.layer), tiles_(tiles), dense_(dense), work_(work) {}

    SparseCost total() {
        aborted_ = ~instances_suffice(layer_, tiles_, dense_);
        const Computes computes = save_computes(design_, tiles_, aborted_);
        cycles_ = ceil((computes.actual + computes.gated) / (dense_.tiles.used_x[0] * dense_.tiles.used_y[0]));
        for (int level = 0; level < layer_.levels; ++level)
            work_.read[level] = work_.written[level] = 0.0, work_.leaking[level] = 1.0;
        for (int t = 0; t < layer_.tensors; ++t) {
            save_accesses(design_, tiles_, dense_, t, work_.accesses.data(), aborted_);
            for (int level = 0; level < layer_.levels; ++level) add_tile(level, t);
        }
        Lanes busy = cycles_;
        for (int level = 0; level < layer_.levels; ++level)
            busy = larger(busy, ceil(cycles_ / slowdown(layer_, level, work_.read[level], work_.written[level])));
        const Lanes energy = computes.actual * design_.compute_energy[ACTUAL]
            + computes.skipped * design_.compute_energy[SKIPPED] + computes.gated * design_.compute_energy[GATED];
        return {floor(busy + layer_.network_latency), with_levels(energy, busy), ~aborted_};
    }

private:
    // Adds one tile to the bandwidths, energies and instances of its level.
    void add_tile(int level, int t) {
        const std::size_t cell = std::size_t(level) * layer_.tensors + t;
        const Occupancies& occupancy = tiles_.occupancies[cell];
        const Mask kept = mask_from(tiles_.kept[cell]);
        const Lanes spanned = dense_.tiles.used_x[level + 1] * dense_.tiles.used_y[level + 1];
        const Instances instances = {spanned, spanned * select(kept, occupancy.used, 1.0)};
        work_.leaking[level] = larger(work_.leaking[level], instances.average);
        work_.energies[cell] = 0.0;
        if (!tiles_.kept[cell]) return;
        aborted_ = aborted_ | mask_from(occupancy.aborts & tiles_.kept[cell]);
        const SparseLevel& hardware = design_.levels[level];
        const TileAccesses& accesses = work_.accesses[level];
        const MetadataBits bits(hardware, design_.format(level, t), occupancy, accesses);
        count_bandwidth(level, t, kept, bits, instances);
        const Lanes clusters = smaller(layer_.clusters[level], instances.most);
        const Mask used = (instances.average > 0.0) & (clusters != 0.0);
        const Lanes each = cluster_energy(hardware, layer_.block[level], bits, occupancy.block_ratio, accesses);
        const Lanes energy = where(used, each / (instances.most / clusters));
        const Lanes addresses = rounded(accesses.busy(layer_.spaces[t].written ? UPDATE : READ) + accesses.busy(FILL));
        work_.energies[cell] = where(kept, energy * instances.average + addresses * layer_.address[level] * clusters);
    }

    // Words per cycle that are asked for; an instance that is used part of the time asks for less.
    void count_bandwidth(int level, int t, Mask kept, const MetadataBits& bits, const Instances& instances) {
        const TileAccesses& accesses = work_.accesses[level];
        const Mask used = kept & (instances.average > 0.0);
        Counts read = accesses.busy(READ), written = accesses.busy(FILL) + accesses.busy(UPDATE);
        if (bits.any) {
            const Count word = Count(design_.levels[level].word_bits);
            read = read + divided_down(bits.busy(READ, accesses), word);
            written = written + divided_down(bits.busy(FILL, accesses) + bits.busy(UPDATE, accesses), word);
        }
        const Lanes spread = instances.most / instances.average;
        aborted_ = aborted_ | (used & ((spread == 0.0) | (cycles_ == 0.0)));
        const double scale = layer_.bandwidth_scale[std::size_t(level) * layer_.tensors + t];
        work_.read[level] += where(used, ceil(rounded(read) / spread) / cycles_ * scale);
        work_.written[level] += where(used, ceil(rounded(written) / spread) / cycles_ * scale);
    }

    // The energy of the computes and of all levels, leakage included.
    Lanes with_levels(Lanes energy, Lanes busy) const {
        for (int level = 0; level < layer_.levels; ++level) {
            const double gated = layer_.gated[level];
            const Lanes units = gated > 1 ? work_.leaking[layer_.gate[level]] * gated : work_.leaking[level];
            const Lanes leakage = busy * design_.levels[level].leak * units / double(layer_.tensors);
            Lanes own = 0.0;
            for (int t = 0; t < layer_.tensors; ++t) own += work_.energies[std::size_t(level) * layer_.tensors + t] + leakage;
            energy += own;
        }
        return energy;
    }

    const SparseDesign& design_;
    const Layer& layer_;
    const SparseTiles& tiles_;
    const Workspace& dense_;
    CostWork& work_;
    Lanes cycles_;
    Mask aborted_;
};

}  // namespace

SparseCost find_cost(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, CostWork& work) {
    return CostSum(design, tiles, dense, work).total();
}

}  // namespace fadiff::sparse
