#include "evaluate.hpp"

#include <algorithm>

namespace fadiff {

// Octaves that every broken limit adds, and what stands in for an amount or limit of 0: as in model/legality.py.
constexpr double EACH_BROKEN_LIMIT = 0.1, SMALLEST = 1e-9;

// Half away from zero, as C++ rounds, for values that are not negative; written as in model/exact/evaluate.py.
static inline double nearest(double value) {
    const double floor = std::floor(value);
    return floor + (value - floor >= 0.5);
}

// Every limit in Timeloop's order, as model/legality.py lists them.
static void check_limits(const Layer& layer, const Mapping& mapping, const Room* room, const Loops& loops,
                         Scores& scores) {
    auto broken = [&](double amount, double limit) {
        scores.legal = false;
        scores.excess += std::abs(std::log2(std::max(amount, SMALLEST) / std::max(limit, SMALLEST))) + EACH_BROKEN_LIMIT;
    };
    auto check = [&](double amount, double limit) { if (amount > limit) broken(amount, limit); };
    const int tensors = layer.tensors;
    bool homeless = false;
    for (int t = 0; t < tensors; ++t) {
        bool kept = false;
        for (int level = 0; level < layer.levels; ++level) kept |= mapping.keep[std::size_t(level) * tensors + t] != 0;
        homeless |= !kept;
    }
    if (homeless) broken(1, 0);
    for (int unit = 0; unit <= layer.levels; ++unit) {
        if (unit && layer.usable[unit - 1] >= 0) {
            const std::size_t first = std::size_t(unit - 1) * tensors;
            const double usable = layer.usable[unit - 1], least = layer.least[unit - 1];
            double words = 0, counted = 0;
            for (int t = 0; t < tensors; ++t) {
                const double kept = mapping.keep[first + t] ? loops.size[first + t] : 0;
                words += kept;
                if (room && room->counted[first + t]) counted += kept;
            }
            // The tile must fit by itself, and its counted part beside the words that reside there.
            check(room ? std::max(words, counted + std::max(usable - room->words[unit - 1], 0.0)) : words, usable);
            if (least > 0 && words < least) broken(words, least);
        }
        const double x = loops.used_x[unit], y = loops.used_y[unit];
        check(x * y, layer.units[unit].instances);
        check(x, layer.units[unit].mesh_x);
        check(y, layer.units[unit].mesh_y);
    }
}

static double sum_words(const Tally& tally) {
    double sum = tally[0].words;
    for (std::size_t k = 1; k < tally.size(); ++k) sum += tally[k].words;
    return sum;
}

// Levels that bypass a data space hand their traffic outwards (model/access_counts.py, bypassed): fills in `scale`,
// `content`, `further`, and takes links away where there is nothing to pass on.
static void hand_outwards(const Layer& layer, const Mapping& mapping, Workspace& work) {
    const int tensors = layer.tensors, levels = layer.levels;
    for (int t = 0; t < tensors; ++t) {
        bool further = false;
        for (int level = levels - 1; level >= 0; --level) {
            const std::size_t cell = std::size_t(level) * tensors + t;
            work.further[cell] = further;
            further |= mapping.keep[cell] != 0;
        }
        for (int level = 0; level < levels; ++level) {
            const std::size_t cell = std::size_t(level) * tensors + t, inner = cell - tensors;
            const Tally& own = work.traffic.tally[cell];
            if (level == 0 || mapping.keep[inner]) {
                work.scale[cell] = 1;
                work.content[cell] = sum_words(own);
                if (level && !work.further[inner]) work.traffic.links[cell] = 0;
                continue;
            }
            double reach = own[0].words * own[0].multicast;
            for (std::size_t k = 1; k < own.size(); ++k) reach += own[k].words * own[k].multicast;
            const double scale = work.content[inner] * work.loops.fan[level] / reach;
            double sum = own[0].words * scale;
            for (std::size_t k = 1; k < own.size(); ++k) sum += own[k].words * scale;
            work.scale[cell] = scale;
            work.content[cell] = sum;
            work.traffic.links[cell] = 0;
        }
    }
}

// Words that one instance of each level is responsible for, whether it keeps the data space or not.
static void divide_tiles(const Layer& layer, Workspace& work) {
    const int tensors = layer.tensors, last = layer.levels - 1;
    const Loops& loops = work.loops;
    for (int t = 0; t < tensors; ++t) {
        double part = loops.size[std::size_t(last) * tensors + t];
        work.part[std::size_t(last) * tensors + t] = part;
        for (int level = last - 1; level >= 0; --level) {
            const std::size_t cell = std::size_t(level) * tensors + t;
            if (loops.fanned[level + 1]) part = std::floor(part * loops.size[cell] / loops.across_size[cell + tensors]);
            work.part[cell] = part;
        }
    }
}

// Reads, fills and updates of one instance of every level (model/access_counts.py, accesses).
static void count_accesses(const Layer& layer, const Mapping& mapping, Workspace& work) {
    const int tensors = layer.tensors;
    for (int level = 0; level < layer.levels; ++level) {
        const bool outermost = level + 1 == layer.levels;
        const double instances = work.loops.used_x[level + 1] * work.loops.used_y[level + 1];
        for (int t = 0; t < tensors; ++t) {
            const std::size_t cell = std::size_t(level) * tensors + t, outer = cell + tensors;
            double &reads = work.reads[cell], &fills = work.fills[cell], &updates = work.updates[cell];
            reads = fills = updates = 0;
            if (!mapping.keep[cell]) continue;
            const double content = work.content[cell];
            const double peer = outermost || work.traffic.links[outer] == 0 ? 0 : work.traffic.links[outer] / instances;
            double share = 0;
            if (work.further[cell])  // words that arrive, in Timeloop's order: truncating the sum makes its last bit count
                for (const Kind& kind : work.traffic.tally[outer])
                    share += kind.words * kind.multicast / work.loops.fan[level + 1];
            if (layer.spaces[t].written) {
                reads = nearest(content + peer - work.part[cell]);
                fills = nearest(share + peer - (work.further[cell] ? work.part[cell] : 0));
                updates = nearest(content);
            } else {
                reads = nearest(content + peer);
                fills = std::floor(share + peer);
            }
        }
    }
}

// Share of the asked bandwidth that a level can give, at most 1: the tightest of its limits.
static double slowdown(const Layer& layer, int level, double cycles, const Workspace& work) {
    const bool limited[3] = {layer.read_bandwidth[level] < UNLIMITED, layer.write_bandwidth[level] < UNLIMITED,
                             layer.shared_bandwidth[level] < UNLIMITED};
    if (!limited[0] && !limited[1] && !limited[2]) return 1;
    double read = 0, write = 0;
    for (int t = 0; t < layer.tensors; ++t) {
        const std::size_t cell = std::size_t(level) * layer.tensors + t;
        read += work.reads[cell] / cycles * layer.bandwidth_scale[cell];
        write += (work.updates[cell] + work.fills[cell]) / cycles * layer.bandwidth_scale[cell];
    }
    double slowest = 1;
    auto limit = [&](double asked, double given) { slowest = std::min(slowest, given / std::max(asked, given)); };
    if (limited[0]) limit(read, layer.read_bandwidth[level]);
    if (limited[1]) limit(write, layer.write_bandwidth[level]);
    if (limited[2]) limit(read + write, layer.shared_bandwidth[level]);
    return slowest;
}

// pJ of all used instances of a level: vector accesses, address generation, leakage over `busy` cycles.
static double level_energy(const Layer& layer, int level, double busy, const Workspace& work) {
    const double instances = work.loops.used_x[level + 1] * work.loops.used_y[level + 1];
    const double clusters = std::min(instances, layer.clusters[level]), members = instances / clusters;
    const double block = layer.block[level];
    double energy = 0;
    for (int t = 0; t < layer.tensors; ++t) {
        const std::size_t cell = std::size_t(level) * layer.tensors + t;
        const double reads = work.reads[cell], fills = work.fills[cell], updates = work.updates[cell];
        if (reads == 0 && fills == 0 && updates == 0) continue;
        const double access = (std::ceil(reads / block) * layer.read[level] + std::ceil(fills / block) * layer.fill[level]
                               + std::ceil(updates / block) * layer.update[level]) / members;
        const double addresses = fills + (layer.spaces[t].written ? updates : reads);
        energy += access * instances + layer.address[level] * addresses * clusters;
    }
    double leaking = instances;  // instances in use, and their neighbours behind the same power gate
    if (layer.gated[level] > 1) {
        const int gate = layer.gate[level];
        leaking = layer.gated[level] * (work.loops.used_x[gate + 1] * work.loops.used_y[gate + 1]);
    }
    return energy + layer.leak[level] * busy * leaking;
}

// pJ of all interconnects (model/exact/interconnect.py).
static double interconnect_energy(const Layer& layer, const Mapping& mapping, const Workspace& work) {
    double sum = 0;
    for (int level = 0; level < layer.levels; ++level) {
        const double instances = work.loops.used_x[level + 1] * work.loops.used_y[level + 1];
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            const double links = work.traffic.links[cell] * (layer.hop[level] + 2 * layer.router[level]);
            double energy = 0;
            if (work.further[cell] || mapping.keep[cell]) {  // further out nothing travels
                const bool twice = layer.spaces[t].written && !layer.reduces[level];
                double words = 0, hops = 0, routers = 0;
                for (const Kind& kind : work.traffic.tally[cell]) {
                    double sums = kind.words * work.scale[cell];
                    // partial sums travel back to be added up, all but the first of each word
                    if (twice && sums > 0) sums = 2 * sums - (mapping.keep[cell] ? work.part[cell] : 0);
                    const double each = sums > 0 ? 1 + std::floor(kind.hop_words / sums) : 0;
                    routers = std::floor(routers + each * sums);  // an integer in Timeloop: every sum is truncated
                    words += sums;
                    hops += kind.hop_words;
                }
                energy = hops * layer.hop[level] + routers * layer.router[level] + words * layer.ingress[level];
            }
            sum += (energy + links) * instances;
        }
    }
    return sum;
}

Scores evaluate(const Layer& layer, const Mapping& mapping, const Room* room, bool all, Workspace& work) {
    Scores scores;
    const Loops& loops = work.loops;
    lay_out(layer, mapping, work.loops);
    check_limits(layer, mapping, room, loops, scores);
    if (!scores.legal && !all) return scores;
    count_demand(layer, mapping, loops, layer.priced, work.traffic);
    count_delivery(layer, mapping, loops, layer.priced, work.traffic);
    hand_outwards(layer, mapping, work);
    divide_tiles(layer, work);
    count_accesses(layer, mapping, work);
    double slowest = 0;
    for (int level = 0; level < layer.levels; ++level)
        slowest = std::max(slowest, std::ceil(loops.cycles / slowdown(layer, level, loops.cycles, work)));
    const double busy = std::max(slowest, loops.cycles);
    double energy = 0;
    for (int level = 0; level < layer.levels; ++level) energy += level_energy(layer, level, busy, work);
    energy += loops.cycles * loops.used_x[0] * loops.used_y[0] * layer.compute_energy;
    scores.energy = layer.priced ? energy + interconnect_energy(layer, mapping, work) : energy;
    scores.cycles = busy + layer.network_latency;
    const int last = layer.levels - 1;
    double accessed = 0;
    for (int t = 0; t < layer.tensors; ++t) {
        const std::size_t cell = std::size_t(last) * layer.tensors + t;
        accessed += work.reads[cell] + work.fills[cell] + work.updates[cell];
    }
    scores.last_level_accesses = accessed * (loops.used_x[last + 1] * loops.used_y[last + 1]);
    return scores;
}

}  // namespace fadiff
