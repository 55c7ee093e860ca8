#include "evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "residual_walk.hpp"
#include "sparse.hpp"

namespace fadiff {

// Octaves that every broken limit adds, so that one broken by a hair still counts and breaking fewer is better; and what
// stands in for an amount or a limit of 0, so that logarithms stay finite.
constexpr double EACH_BROKEN_LIMIT = 0.1, SMALLEST = 1e-9;

// Marks the lanes that break a limit as illegal, by as many octaves.
static void refuse(int count, Mask broken, Lanes amount, double limit, Scores* scores) {
    for (const int lane : members(broken.bits() & ((1u << count) - 1))) {
        scores[lane].legal = false;
        const double ratio = std::max(amount[lane], SMALLEST) / std::max(limit, SMALLEST);
        scores[lane].excess += std::abs(std::log2(ratio)) + EACH_BROKEN_LIMIT;
    }
}

// Room for the difference of two sums.
constexpr double MORE = 1 + 1e-9;

// Words of the levels that elements take, of accesses that have been counted (model/access_counts.py, element_words).
static void lay_element_words(const Layer& layer, Workspace& work) {
    for (int t = 0; t < layer.tensors && layer.packed(); ++t) {
        Mask apart = mask_of(false);  // receivers further out have sums of the same words
        for (int level = layer.levels - 1; level >= 0; --level) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            const auto words = [&](Mask sums) { return select(sums, Lanes(layer.partial[cell]), Lanes(layer.whole[cell])); };
            const Mask again = work.updates[cell] > work.part[cell] * MORE;
            work.stored[cell] = words(apart | again);
            for (const int d : members(layer.spaces[t].adding & work.pack.spatial_dims(level)))
                apart = apart | (work.pack.spatial(level, layer.dims)[d] > 1.0);
            work.transferred[cell] = words(apart | again);
        }
    }
}

// Words of a level that elements of a data space take there; `packed` is the layer's, asked for once.
static inline Lanes in_words(bool packed, const Layer& layer, const Workspace& work, std::size_t cell, Lanes elements) {
    return packed ? elements * work.stored[cell] / layer.per[cell] : elements;
}

// Every limit in Timeloop's order, as model/legality.py lists them; fills in legality and excess.
static void check_limits(const Layer& layer, const RoomPack* room, const Workspace& work, Scores* scores) {
    const MappingPack& pack = work.pack;
    const auto check = [&](Lanes amount, double limit) { refuse(pack.count, amount > limit, amount, limit, scores); };
    Mask homeless = mask_of(false);
    for (int t = 0; t < layer.tensors; ++t) {
        Mask kept = mask_of(false);
        for (int level = 0; level < layer.levels; ++level) kept = kept | pack.keep[std::size_t(level) * layer.tensors + t];
        homeless = homeless | !kept;
    }
    refuse(pack.count, homeless, 1.0, 0, scores);
    for (int unit = 0; unit <= layer.levels; ++unit) {
        if (unit && layer.level[unit - 1].usable >= 0) {
            const double usable = layer.level[unit - 1].usable;
            Lanes words = 0.0, counted = 0.0;
            for (int t = 0; t < layer.tensors; ++t) {
                const std::size_t cell = std::size_t(unit - 1) * layer.tensors + t;
                Lanes needed = work.tiles.size[cell];
                if (layer.packed()) needed = ceil(needed * layer.partial[cell] / layer.per[cell]);
                words += where(pack.keep[cell], needed);
                if (room) counted += where(pack.keep[cell] & room->counted[cell], needed);
            }
            // Where tensors of other layers lie in it, a tile must fit by itself, and its counted part beside these.
            check(room ? larger(words, counted + larger(usable - room->words[unit - 1], 0.0)) : words, usable);
            const double least = layer.level[unit - 1].least;
            if (least > 0) refuse(pack.count, words < least, words, least, scores);
        }
        const Lanes x = work.tiles.used_x[unit], y = work.tiles.used_y[unit];
        check(unit ? work.used[unit - 1] : x * y, layer.units[unit].instances);  // on average
        check(x, layer.units[unit].mesh_x);
        check(y, layer.units[unit].mesh_y);
    }
    for (int level = 0; level < layer.levels; ++level) check(work.tiles.fan[level], MOST_RECEIVERS);
}

// A number of a cell; in lanes whose receivers were counted one by one the sum of `value(kind, lane)` over the kinds of transfer,
// in their order, on which the last bit depends.
template <typename Value>
static Lanes over_kinds(const Traffic& traffic, std::size_t cell, Lanes number, Value value) {
    for (const int lane : members(traffic.counted[cell])) {
        const Tally& tally = traffic.tally[cell * LANES + lane];
        double sum = value(tally[0], lane);
        for (std::size_t k = 1; k < tally.size(); ++k) sum += value(tally[k], lane);
        number.set(lane, sum);
    }
    return number;
}

// Levels that bypass a data space hand their traffic outwards (model/access_counts.py, bypassed): fills in `scale`,
// `content` and `further`, and takes links away where there is nothing to pass on.
static void hand_outwards(const Layer& layer, Workspace& work) {
    const int tensors = layer.tensors, levels = layer.levels;
    Traffic& traffic = work.traffic;
    for (int t = 0; t < tensors; ++t) {
        Mask further = mask_of(false);
        for (int level = levels - 1; level >= 0; --level) {
            const std::size_t cell = std::size_t(level) * tensors + t;
            work.further[cell] = further;
            further = further | work.pack.keep[cell];
        }
        for (int level = 0; level < levels; ++level) {
            const std::size_t cell = std::size_t(level) * tensors + t;
            work.scale[cell] = 1.0;
            work.content[cell] = over_kinds(traffic, cell, traffic.words[cell], [](const Kind& kind, int) { return kind.words; });
            if (level == 0) continue;
            const std::size_t inner = cell - tensors;
            const Mask kept = work.pack.keep[inner] & mask_of(layer.coalesced[inner]);
            traffic.links[cell] = where(kept & work.further[inner], traffic.links[cell]);
            if (kept.all()) continue;
            const Lanes reach = over_kinds(traffic, cell, traffic.words[cell] * traffic.multicast[cell],
                                           [](const Kind& kind, int) { return kind.words * kind.multicast; });
            const Lanes scale = select(kept, 1.0, work.content[inner] * work.receivers[level] / reach);
            work.scale[cell] = scale;
            work.content[cell] = over_kinds(traffic, cell, traffic.words[cell] * scale,
                                            [&](const Kind& kind, int lane) { return kind.words * scale[lane]; });
        }
    }
}

// Words that one instance of each level is responsible for, whether it keeps the data space or not.
static void divide_tiles(const Layer& layer, Workspace& work) {
    const int tensors = layer.tensors, last = layer.levels - 1;
    const Tiles& tiles = work.tiles;
    for (int t = 0; t < tensors; ++t) {
        work.part[std::size_t(last) * tensors + t] = tiles.size[std::size_t(last) * tensors + t];
        for (int level = last - 1; level >= 0; --level) {
            const std::size_t cell = std::size_t(level) * tensors + t, outer = cell + tensors;
            // a share that is no whole number must not depend on the other lanes
            const Lanes share = work.part[outer] * tiles.size[cell] / tiles.across_size[outer];
            work.part[cell] = !work.rounded ? share
                              : work.pack.spatial_dims(level + 1) ? floor(share) : work.part[outer];
        }
    }
}

// Words that an instance takes from neighbours, each of which costs one neighbour's read.
static Lanes from_neighbours(const Layer& layer, const Workspace& work, std::size_t cell, int level) {
    const std::size_t outer = cell + layer.tensors;
    if (level + 1 == layer.levels || !work.traffic.counted[outer]) return 0.0;
    return work.traffic.links[outer] / work.used[level];
}

// Outputs with holes or overlaps, or last runs, of which fewer words come up to a level than its partition has: Timeloop
// ends on an assertion there (model/legality.py, untouched_sums). Returns their lanes, a bit each.
static unsigned refuse_untouched(const Layer& layer, const Workspace& work, unsigned lanes, Scores* scores) {
    unsigned refused = 0;
    for (int t = 0; t < layer.tensors; ++t)
        for (int level = 0; level < layer.levels && (work.residual ? layer.spaces[t].written : layer.spaces[t].holed); ++level) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            const Lanes touched = work.content[cell] + from_neighbours(layer, work, cell, level);
            const Lanes missing = where(work.pack.keep[cell], work.part[cell] - touched);
            const Mask fewer = (missing > 0.0) & mask_from(lanes);
            refuse(work.pack.count, fewer, missing, 0, scores);
            refused |= fewer.bits();
        }
    return refused;
}

// Words that arrive at one receiver below a level, in Timeloop's order: truncating the sum makes its last bit count.
static Lanes arriving(const Workspace& work, std::size_t cell, int level) {
    const Traffic& traffic = work.traffic;
    Lanes share = traffic.words[cell];
    if (work.pack.spatial_dims(level)) share = traffic.words[cell] * traffic.multicast[cell] / work.receivers[level];
    return over_kinds(traffic, cell, share, [&](const Kind& kind, int lane) {
        return kind.words * kind.multicast / work.receivers[level][lane];
    });
}

// Reads, fills and updates of one instance of every level (model/access_counts.py, accesses).
static void count_accesses(const Layer& layer, Workspace& work) {
    const int tensors = layer.tensors;
    const bool rounded = work.rounded;
    const auto nearest = [=](Lanes words) { return rounded ? fadiff::nearest(words) : words; };
    const auto down = [=](Lanes words) { return rounded ? floor(words) : words; };
    for (int level = 0; level < layer.levels; ++level) {
        for (int t = 0; t < tensors; ++t) {
            const std::size_t cell = std::size_t(level) * tensors + t, outer = cell + tensors;
            const Mask keep = work.pack.keep[cell], further = keep & work.further[cell];
            work.reads[cell] = work.fills[cell] = work.updates[cell] = 0.0;
            if (!keep.any()) continue;
            const Lanes content = work.content[cell];
            const Lanes peer = from_neighbours(layer, work, cell, level);
            Lanes share = 0.0;
            if (further.any()) share = where(further, arriving(work, outer, level + 1));
            if (layer.spaces[t].written) {
                // Nothing is read and filled where the first update of each word is a plain write.
                const Lanes first = layer.first_written[cell] && layer.coalesced[cell] ? work.part[cell] : Lanes(0.0);
                const Lanes asked = nearest(content + peer - first);
                const Lanes filled = nearest(share + peer - where(further, first));
                work.reads[cell] = where(keep, asked);
                work.fills[cell] = where(keep, layer.coalesced[cell] ? filled : asked);
                work.updates[cell] = where(keep, nearest(content));
            } else {
                work.reads[cell] = where(keep, nearest(content + peer));
                work.fills[cell] = where(keep, down(share + peer));
            }
        }
    }
}

Lanes slowdown(const Level& level, Lanes read, Lanes written) {
    Lanes slowest = 1.0;
    level.at_limited_ports(read, written, [&](Lanes asked, double given) {
        slowest = smaller(slowest, Lanes(given) / larger(asked, given));
    });
    return slowest;
}

// Cycles of a level: compute cycles over the share of the asked bandwidth that the level can give.
static Lanes level_cycles(const Layer& layer, int level, const Workspace& work) {
    const Level& own = layer.level[level];
    const Lanes cycles = work.tiles.cycles;
    if (!own.limited()) return cycles;
    const bool packed = layer.packed();
    Lanes read = 0.0, write = 0.0;
    for (int t = 0; t < layer.tensors; ++t) {
        const std::size_t cell = std::size_t(level) * layer.tensors + t;
        const auto words = [&](const std::vector<Lanes>& of) { return in_words(packed, layer, work, cell, of[cell]); };
        Lanes reads = words(work.reads), writes = words(work.updates) + words(work.fills);
        if (work.residual) {  // of an average instance
            const Lanes busy = work.tiles.instances(level) / work.used[level];
            reads = ceil(reads / busy), writes = ceil(writes / busy);
        }
        read += reads / cycles * layer.bandwidth_scale[cell];
        write += writes / cycles * layer.bandwidth_scale[cell];
    }
    return ceil(cycles / slowdown(own, read, write));
}

// pJ of all used instances of a level: vector accesses, address generation, leakage over `busy` cycles.
static Lanes level_energy(const Layer& layer, int level, Lanes busy, const Workspace& work) {
    const Lanes instances = work.used[level], laid_out = work.tiles.instances(level);
    const Lanes clusters = smaller(laid_out, layer.level[level].clusters), members = laid_out / clusters;
    const double block = layer.level[level].block;
    const bool packed = layer.packed();
    const auto blocks = [&](Lanes words) { return block == 1 ? ceil(words) : ceil(words / block); };
    Lanes energy = 0.0;
    for (int t = 0; t < layer.tensors; ++t) {
        const std::size_t cell = std::size_t(level) * layer.tensors + t;
        if (!work.pack.keep[cell].any()) continue;
        const auto words = [&](const std::vector<Lanes>& of) { return in_words(packed, layer, work, cell, of[cell]); };
        const Lanes reads = words(work.reads), fills = words(work.fills), updates = words(work.updates);
        const Lanes access = (blocks(reads) * layer.level[level].read + blocks(fills) * layer.level[level].fill
                              + blocks(updates) * layer.level[level].update) / members;
        const Lanes addresses = in_words(packed, layer, work, cell, work.fills[cell] + (
            layer.spaces[t].written ? work.updates[cell] : work.reads[cell]));
        energy += access * instances + addresses * layer.level[level].address * clusters;
    }
    return energy + busy * layer.level[level].leak * layer.leaking(level, work.used);
}

// Traffic of an interconnect that is added up kind of transfer by kind (model/interconnects.py).
struct Charge {
    double words = 0, hops = 0, routers = 0, additions = 0;
    double receivers = 0, last = 0;  // the last kind, and its words
};

// Adds words that go to so many receivers each.
static void charge(const Interconnect& one, double words, double hop_words, double receivers, Charge& to) {
    to.words += words;
    if (!(words > 0)) return;  // a kind without words has no hops
    if (one.kind == Interconnect::WIRES) {
        to.routers = std::floor(to.routers + (1 + std::floor(hop_words / words)) * words);  // whole numbers in Timeloop
        to.hops += hop_words;
    } else if (one.kind == Interconnect::TREE) {
        to.hops += std::floor(std::log2(receivers)) * 0.5 * words;
        to.additions = std::floor(to.additions + (receivers - 1) * words);
    } else {
        to.receivers = receivers, to.last = words;  // the kinds before are lost in Timeloop
    }
}

// pJ of an interconnect for one data space of one mapping, all instances together.
static double interconnect_energy(const Layer& layer, const Workspace& work, const Interconnect& one, int t, int lane) {
    const std::size_t cell = std::size_t(one.level) * layer.tensors + t;
    const Traffic& traffic = work.traffic;
    const bool written = layer.spaces[t].written;
    if (one.kind == Interconnect::TREE && !written) return 0;
    Charge sum;
    if (work.further[cell][lane] || work.pack.keep[cell][lane]) {  // further out nothing travels
        const double first = work.pack.keep[cell][lane] ? work.part[cell][lane] : 0;
        const auto add = [&](double sent, double hop_words, double receivers) {
            double words = sent * work.scale[cell][lane];
            // partial sums travel back, all but the first of each word
            if (written && !one.reduces && words > 0) words = 2 * words - first;
            charge(one, words, hop_words, receivers, sum);
        };
        if (traffic.counted[cell] >> lane & 1)
            for (const Kind& kind : traffic.tally[cell * LANES + lane]) add(kind.words, kind.hop_words, kind.multicast);
        else
            add(traffic.words[cell][lane], 0, traffic.multicast[cell][lane]);
    }
    if (one.kind == Interconnect::TREE) return sum.hops * one.hop + sum.additions * one.adder;  // of one instance in Timeloop
    const double instances = work.used[one.level][lane];
    if (one.kind == Interconnect::MULTICAST) {
        double energy = 0;  // of a word to so many receivers
        for (const auto& [to, own] : one.transfers[t])
            if (to == 0 || to == sum.receivers) energy = own;
        return energy * sum.last * instances;
    }
    const double links = traffic.links[cell][lane] * (one.hop + 2 * one.router);
    return (sum.hops * one.hop + sum.routers * one.router + sum.words * one.ingress + links) * instances;
}

// Cycles, energy and accesses of the outermost level, from the counts.
static void add_up(const Layer& layer, const Workspace& work, Scores* scores) {
    const int last = layer.levels - 1;
    Lanes busy = work.tiles.cycles, energy = 0.0, accessed = 0.0;
    for (int level = 0; level < layer.levels; ++level) busy = larger(busy, level_cycles(layer, level, work));
    for (int level = 0; level < layer.levels; ++level) energy += level_energy(layer, level, busy, work);
    energy += work.computes * layer.compute_energy;
    for (int t = 0; t < layer.tensors; ++t) {
        const std::size_t cell = std::size_t(last) * layer.tensors + t;
        accessed += work.reads[cell] + work.fills[cell] + work.updates[cell];
    }
    accessed *= work.used[last];
    for (int lane = 0; lane < work.pack.count; ++lane) {
        double wires = 0;
        if (layer.priced)
            for (const Interconnect& one : layer.interconnects)
                for (int t = 0; t < layer.tensors; ++t) {
                    const std::size_t cell = std::size_t(one.level) * layer.tensors + t;
                    const double energy = interconnect_energy(layer, work, one, t, lane);
                    wires += layer.packed() ? energy * (work.transferred[cell][lane] / layer.per[cell]) : energy;
                }
        scores[lane].energy = layer.priced ? energy[lane] + wires : energy[lane];
        scores[lane].cycles = busy[lane] + layer.network_latency;
        scores[lane].last_level_accesses = accessed[lane];
    }
}

void evaluate(const Layer& layer, const RoomPack* room, unsigned wanted, Workspace& work, Scores* scores) {
    lay_tiles(layer, work.pack, work.tiles);
    evaluate_tiles(layer, room, wanted, work, scores);
}

// From the words that cross boundaries, in some lanes, to scores. Returns the lanes of `refuse_untouched`.
static unsigned count_and_add_up(const Layer& layer, Workspace& work, unsigned lanes, Scores* scores) {
    hand_outwards(layer, work);
    divide_tiles(layer, work);
    const unsigned untouched = refuse_untouched(layer, work, lanes, scores);
    count_accesses(layer, work);
    lay_element_words(layer, work);
    add_up(layer, work, scores);
    return untouched;
}

static void forget_counts(Scores& scores) { scores.cycles = scores.energy = scores.last_level_accesses = 0; }

unsigned evaluate_tiles(const Layer& layer, const RoomPack* room, unsigned wanted, Workspace& work, Scores* scores) {
    const int count = work.pack.count;
    std::fill_n(scores, count, Scores());
    for (int level = 0; level < layer.levels; ++level) {
        work.used[level] = work.tiles.instances(level);
        work.receivers[level] = work.tiles.fan[level];
    }
    work.computes = work.tiles.cycles * work.tiles.used_x[0] * work.tiles.used_y[0];
    check_limits(layer, room, work, scores);
    unsigned lanes = 0;
    const bool holed = std::any_of(layer.spaces.begin(), layer.spaces.end(), [](const DataSpace& space) { return space.holed; });
    for (int lane = 0; lane < count; ++lane)
        lanes |= unsigned((wanted >> lane & 1) || holed || scores[lane].legal) << lane;
    if (!lanes) return 0;
    if (wanted || holed) lanes &= lanes_countable(layer, work.tiles);
    count_demand(layer, work.pack, work.tiles, layer.priced, work.traffic);
    count_delivery(layer, work.pack, work.tiles, layer.priced, lanes, work.traffic);
    const unsigned untouched = count_and_add_up(layer, work, ALL_LANES, scores);
    for (int lane = 0; lane < count; ++lane)
        if (!(wanted >> lane & 1) && !scores[lane].legal) forget_counts(scores[lane]);
    return untouched;
}

// Instances in use on average (model/tiles.py, average_usage), before any rounding.
struct AverageUse {
    std::vector<Lanes> used, receivers;  // [L]
    Lanes iterations = 1.0, units = 1.0, computes = 1.0;
};

static AverageUse average_use(const Layer& layer, const MappingPack& pack) {
    const int dims = layer.dims, levels = layer.levels;
    AverageUse use{std::vector<Lanes>(levels), std::vector<Lanes>(levels)};
    std::vector<Lanes> runs(dims, 1.0);  // iterations of all loops so far, the last ones counted as they are
    const auto run = [&](int place) {
        const std::size_t first = std::size_t(place) * dims;
        for (int d = 0; d < dims; ++d) runs[d] = pack.last[first + d] + pack.factor[first + d] * (runs[d] - 1.0);
    };
    Lanes used = 1.0;
    for (int level = levels - 1; level >= 0; --level) {
        use.used[level] = used;
        run(2 * level + 1);
        const std::size_t first = std::size_t(level) * dims;
        if (level) used = lanes_of([&](int lane) {
            double own = used[lane];
            for (const bool on_y : {true, false})
                for (int position = dims - 1; position >= 0; --position) {
                    const int d = pack.spatial_order[(first + position) * LANES + lane];
                    if (pack.on_y[first + d][lane] != on_y) continue;
                    const double bound = pack.factor[2 * first + d][lane], last = pack.last[2 * first + d][lane];
                    own = bound == last ? own * bound : own * (last + bound * (runs[d][lane] - 1)) / runs[d][lane];
                }
            return own;
        });
        run(2 * level);
    }
    for (int d = 0; d < dims; ++d) use.computes *= runs[d];
    Lanes width = 1.0, most = 1.0;  // of the innermost fan-out; the largest that runs
    for (int d = 0; d < dims; ++d) {
        Lanes ends = pack.last[d], others = pack.factor[d];
        Mask shorter = mask_of(true);  // nothing but last runs
        for (int place = 1; place < 2 * levels; ++place) {
            const std::size_t at = std::size_t(place) * dims + d;
            const Lanes factor = pack.factor[at], last = pack.last[at];
            shorter = shorter & (last == 1.0);
            if (place % 2) take_loop(factor, last, others, ends);
            else ends = select(last == 1.0, ends, others);
        }
        use.iterations *= ends;
        width *= pack.factor[d];
        most *= select(shorter, pack.last[d], pack.factor[d]);
    }
    use.units = floor(use.used[0] * width);
    use.iterations = use.iterations / most;
    use.receivers[0] = use.units / use.used[0];
    for (int level = 1; level < levels; ++level) use.receivers[level] = use.used[level - 1] / use.used[level];
    return use;
}

// Words of tiles where no run of a dimension is a whole one (model/tiles.py).
static void lay_last_runs(const Layer& layer, const MappingPack& pack, Tiles& tiles) {
    const int dims = layer.dims;
    std::vector<Mask> ended(pack.last.size(), mask_of(true));  // loops further out have no iteration but the last
    for (std::size_t at = ended.size() - dims; at-- > 0;) ended[at] = ended[at + dims] & (pack.last[at + dims] == 1.0);
    std::vector<Lanes> whole(dims, 1.0), rest(dims, 1.0), box(dims);
    for (int place = 0; place < layer.places(); ++place) {
        for (int d = 0; d < dims; ++d) {
            const std::size_t at = std::size_t(place) * dims + d;
            take_loop(pack.factor[at], pack.last[at], whole[d], rest[d]);
            box[d] = select(ended[at], rest[d], whole[d]);
        }
        Lanes* words = &(place % 2 ? tiles.size : tiles.across_size)[std::size_t(place / 2) * layer.tensors];
        for (int t = 0; t < layer.tensors; ++t) words[t] = volume(layer.spaces[t], box.data());
    }
}

// Traffic of mappings with residuals before any is walked: none.
static void clear_traffic(Traffic& traffic) {
    std::fill(traffic.counted.begin(), traffic.counted.end(), std::uint8_t(0));
    for (std::vector<Lanes>* of : {&traffic.multicast, &traffic.scatter}) std::fill(of->begin(), of->end(), Lanes(1.0));
    for (std::vector<Lanes>* of : {&traffic.words, &traffic.links}) std::fill(of->begin(), of->end(), Lanes(0.0));
}

// The traffic of one of them.
static void lay_traffic(ResidualTraffic found, int lane, Traffic& traffic) {
    for (std::size_t cell = 0; cell < traffic.counted.size(); ++cell) {
        Tally& tally = traffic.tally[cell * LANES + lane];
        tally = std::move(found.tally[cell]);
        if (tally.empty()) tally.push_back({1, 1, 0, 0});
        traffic.counted[cell] |= std::uint8_t(1u << lane);
        traffic.links[cell].set(lane, found.links[cell]);
    }
}

void evaluate_residuals(const Layer& layer, const RoomPack* room, Workspace& work, Scores* scores, Scores* unrounded) {
    const int count = work.pack.count;
    lay_tiles(layer, work.pack, work.tiles);
    lay_last_runs(layer, work.pack, work.tiles);
    const AverageUse use = average_use(layer, work.pack);
    const Lanes counted = use.iterations * use.units, forgotten = larger(use.computes / larger(counted, 1.0), 1.0);
    std::vector<ResidualWalk> walks;
    Lanes calls = 0.0;
    for (int lane = 0; lane < count; ++lane) {
        walks.emplace_back(layer, work.pack, work.tiles, lane, layer.priced);
        calls.set(lane, walks.back().calls());
    }
    clear_traffic(work.traffic);
    unsigned walked = 0;
    for (const bool rounded : {true, false}) {
        work.rounded = rounded;
        Scores* own = rounded ? scores : unrounded;
        std::fill_n(own, count, Scores());
        for (int lane = 0; lane < count; ++lane) own[lane].forgotten = forgotten[lane];
        work.computes = rounded ? floor(counted) : use.computes;
        for (int level = 0; level < layer.levels; ++level) {
            work.used[level] = rounded ? floor(use.used[level]) : use.used[level];
            work.receivers[level] = rounded ? work.tiles.fan[level] : use.receivers[level];
        }
        refuse(count, calls > MOST_CALLS, calls, MOST_CALLS, own);
        check_limits(layer, room, work, own);
        for (int lane = 0; rounded && lane < count; ++lane) {
            if (!own[lane].legal) continue;
            walked |= 1u << lane;
            lay_traffic(walks[lane].run(), lane, work.traffic);
        }
        count_and_add_up(layer, work, walked, own);
        for (int lane = 0; lane < count; ++lane)
            if (!own[lane].legal) forget_counts(own[lane]);
    }
}

// The columns of a batch one after the other. Those of a large batch are copied near each other first: the numbers of one
// mapping lie a whole row apart; where a row is a power of two long they share few lines of the processor's caches and push
// each other out before their neighbours are read. The next columns are asked for ahead of time.
class NearColumns {
public:
    NearColumns(const Layer& layer, const Batch& batch, std::size_t first, std::size_t last)
        : batch_(batch), near_(batch), first_(first), last_(last), copied_(batch.size > SHORT_ROW),
          loops_(std::size_t(layer.levels) * layer.dims), cells_(std::size_t(layer.levels) * layer.tensors) {
        if (!copied_) return;
        factor_.resize((batch.residual() ? 4 : 2) * loops_ * SIZE), order_.resize(2 * loops_ * SIZE);
        flag_ = std::make_unique<bool[]>((loops_ + cells_) * SIZE);
        near_.size = SIZE;
    }

    // The batch in which a column and the rest of its pack lie, and the column's place there. The first one, then each
    // LANES further.
    std::pair<const Batch&, std::size_t> at(std::size_t column) {
        if (!copied_) return {batch_, column};
        const std::size_t within = (column - first_) % SIZE;
        if (!within) copy(column, std::min(SIZE, last_ - column));
        return {near_, within};
    }

private:
    // Columns that are copied together: fewer cost time for copying, more gain nothing. Columns of a batch up to which the
    // caches hold all rows side by side, so that copying costs more than it gains.
    static constexpr std::size_t SIZE = 64, SHORT_ROW = 4096;

    void copy(std::size_t first, std::size_t count) {
        const auto rows = [&](const auto* from, std::size_t number, auto* into) {
            constexpr std::size_t bytes = SIZE * sizeof *into;
            for (std::size_t i = 0; i < number; ++i) {
                const auto* own = from + i * batch_.size + first;
                if (count < SIZE) std::copy_n(own, count, into + i * SIZE);
                else std::memcpy(into + i * SIZE, own, bytes);
                for (std::size_t byte = 0; byte < bytes; byte += 64)
                    __builtin_prefetch(reinterpret_cast<const char*>(own) + bytes + byte, 0, 2);
            }
            return into;
        };
        for (int half : {SPATIAL, TEMPORAL}) {
            near_.factor[half] = rows(batch_.factor[half], loops_, &factor_[half * loops_ * SIZE]);
            near_.order[half] = rows(batch_.order[half], loops_, &order_[half * loops_ * SIZE]);
            if (batch_.residual()) near_.last[half] = rows(batch_.last[half], loops_, &factor_[(2 + half) * loops_ * SIZE]);
        }
        near_.on_y = rows(batch_.on_y, loops_, flag_.get());
        near_.keep = rows(batch_.keep, cells_, &flag_[loops_ * SIZE]);
    }

    const Batch& batch_;
    Batch near_;
    const std::size_t first_, last_;
    const bool copied_;
    const std::size_t loops_, cells_;
    std::vector<double> factor_;
    std::vector<std::int64_t> order_;
    std::unique_ptr<bool[]> flag_;
};

Evaluator::Evaluator(const Layer& layer, bool residual, std::shared_ptr<const sparse::SparseDesign> design,
                     std::optional<Correction> correction)
    : work(layer, residual || design, residual), layer_(layer),
      sparse_(design ? std::make_unique<sparse::SparseEvaluator>(std::move(design)) : nullptr), correction_(std::move(correction)) {}

Evaluator::~Evaluator() = default;

ScoredLayer::~ScoredLayer() { delete idle.load(); }

void Evaluator::evaluate(const RoomPack* room, unsigned wanted, Scores* scores, Scores* unrounded) {
    if (sparse_) sparse_->evaluate(work, scores);
    else if (work.residual) evaluate_residuals(layer_, room, work, scores, unrounded);
    else fadiff::evaluate(layer_, room, wanted, work, scores);
    for (int lane = 0; correction_ && lane < work.pack.count; ++lane)
        if (scores[lane].legal) scores[lane].cycles = correction_->cycles(layer_, work.pack, lane);
}

void score(ScoredLayer& layer, std::shared_ptr<const sparse::SparseDesign> design, const Batch& batch, const RoomColumns& rooms,
           std::size_t first, std::size_t last, bool all, double* out) {
    const bool plain = !design && !batch.residual();
    std::unique_ptr<Evaluator> own(plain ? layer.idle.exchange(nullptr) : nullptr);
    if (!own) own = std::make_unique<Evaluator>(layer, batch.residual(), std::move(design));
    const std::size_t size = batch.size;
    RoomPack room(layer);
    Scores scores[LANES], unrounded[LANES];
    NearColumns columns(layer, batch, first, last);
    for (std::size_t column = first; column < last; column += LANES) {
        const int count = int(std::min<std::size_t>(LANES, last - column));
        const auto [near, within] = columns.at(column);
        pack_columns(layer, near, within, count, own->work.pack);
        for (int i = 0; rooms.words && i < count; ++i) lay_room(rooms, column + i, i, room);
        own->evaluate(rooms.words ? &room : nullptr, all ? ALL_LANES : 0, scores, unrounded);
        for (int i = 0; i < count; ++i) {
            const Scores& found = scores[i];
            double* at = out + column + i;
            at[0] = found.cycles, at[size] = found.energy, at[2 * size] = found.last_level_accesses;
            at[3 * size] = found.excess, at[4 * size] = found.legal;
        }
    }
    if (plain) delete layer.idle.exchange(own.release());
}

BatchTraffic traffic_of(const Layer& layer, const Batch& batch, bool with_hops) {
    const std::size_t size = batch.size, cells = std::size_t(layer.levels) * layer.tensors;
    BatchTraffic found{std::vector<double>(cells * size), std::vector<double>(cells * size), std::vector<double>(size),
                       std::vector<Tally>(cells * size)};
    Workspace work(layer, batch.residual(), batch.residual());
    Traffic& own = work.traffic;
    for (std::size_t column = 0; column < size; column += LANES) {
        const int count = int(std::min<std::size_t>(LANES, size - column));
        pack_columns(layer, batch, column, count, work.pack);
        lay_tiles(layer, work.pack, work.tiles);
        if (batch.residual()) {
            clear_traffic(own);
            for (int i = 0; i < count; ++i) {
                ResidualWalk walk(layer, work.pack, work.tiles, i, with_hops);
                found.calls[column + i] = walk.calls();
                if (walk.walkable()) lay_traffic(walk.run(), i, own);
            }
        } else {
            count_demand(layer, work.pack, work.tiles, with_hops, own);
            count_delivery(layer, work.pack, work.tiles, with_hops, ((1u << count) - 1) & lanes_countable(layer, work.tiles), own);
        }
        for (std::size_t cell = 0; cell < cells; ++cell)
            for (int i = 0; i < count; ++i) {
                const std::size_t at = cell * size + column + i;
                if (own.counted[cell] >> i & 1) found.tallies[at] = own.tally[cell * LANES + i];
                else found.tallies[at] = {{own.multicast[cell][i], own.scatter[cell][i], own.words[cell][i], 0}};
                found.wanted[at] = own.wanted[cell][i];
                found.links[at] = own.links[cell][i];
            }
    }
    return found;
}

}  // namespace fadiff
