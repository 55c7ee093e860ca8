// Constants of one layer on one architecture for its evaluations, and one mapping of the layer.
//
// Axes: L storage levels from the innermost outwards, D dimensions of the problem, T data spaces. Tables are flat, the
// last axis first in memory: [L][D] at `level * dims + d`. Meanings and units are those of
// model/prepared_layer.py (Machine), model/loop_nest.py (Projection) and model/reuse.py (Reuse), which build a Layer.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace fadiff {

using Dims = std::uint64_t;  // a set of dimensions, one bit each

// The members of a set of bits, ascending, for a range-based loop.
struct Members {
    std::uint64_t left;

    Members begin() const { return *this; }
    std::nullptr_t end() const { return nullptr; }
    bool operator!=(std::nullptr_t) const { return left; }
    int operator*() const { return __builtin_ctzll(left); }
    void operator++() { left &= left - 1; }
};
inline Members members(std::uint64_t set) { return {set}; }

// Whether a quotient of two whole numbers below 2^53 is whole; no other quotient of such numbers rounds to a whole number.
inline bool is_whole(double quotient) { return quotient == std::floor(quotient); }

// Whether a whole number divides another one.
inline bool divides(double part, double whole) { return whole >= part && is_whole(whole / part); }

// Bandwidth of a level without a limit, words per cycle.
constexpr double UNLIMITED = 1e30;

// Most units along an axis of a fan-out: sums of two such numbers stay within the range of `int`.
constexpr double MOST_UNITS = 1 << 30;

// One rank of a data space: the sum of terms coefficient * dimension.
struct Rank {
    struct Term {
        int dim;
        double coefficient;
    };
    std::vector<Term> terms;
    Dims dims = 0;        // dimensions of the terms
    double surplus = 0;   // sum of coefficients - 1: extent = sum of coefficient * points - surplus
    int single = -1;      // the only dimension, if its coefficient is 1, as in most ranks; its points are the extent; -1: none
};

// Instances of a storage level or of the arithmetic.
struct Unit {
    double instances = 1, mesh_x = 1, mesh_y = 1;
};

// An interconnect below a level (model/interconnects.py); pJ per word.
struct Interconnect {
    enum Kind { WIRES, TREE, MULTICAST };
    using Transfer = std::pair<double, double>;  // receivers (0: any number), energy
    Kind kind = WIRES;
    int level = 0;
    bool reduces = true;           // partial sums cross it once
    double hop = 0, router = 0, ingress = 0, adder = 0;
    std::vector<std::vector<Transfer>> transfers;  // [T] for a multicast
};

struct DataSpace {
    std::vector<Rank> ranks;
    std::vector<double> move;  // [R][D]: move of each rank per point of each dimension, words
    Dims relevant = 0;         // dimensions that occur in some rank
    Dims shared = 0;           // dimensions that share a rank with another dimension
    bool windowed = false;     // some rank is a sum of several dimensions
    bool written = false;      // an output
    Dims adding = 0;           // dimensions whose loops may add up words of an output
    bool holed = false;        // an output whose tiles may leave holes or overlap (model/legality.py, outputs_with_holes)
};

// Extent of a rank of a box, from its first to its last touched word: 1 + sum of coefficient * (points - 1). `points(dim)`:
// points of the box along a dimension, of one box or of eight in lanes. Inlined, as a call would return lanes through memory.
template <typename Points>
[[gnu::always_inline]]
inline auto extent_along(const Rank& rank, Points points) {
    using Number = std::decay_t<decltype(points(0))>;
    if (rank.single >= 0) return Number(points(rank.single));
    Number reach = Number(-rank.surplus);
    for (const Rank::Term& term : rank.terms)
        reach += term.coefficient == 1 ? Number(points(term.dim)) : points(term.dim) * Number(term.coefficient);
    return reach;
}

template <typename Number>
Number extent(const Rank& rank, const Number* box) {
    return extent_along(rank, [box](int dim) { return box[dim]; });
}

// Words of a box [D] in a data space, holes of strides included: the product of the extents of its ranks.
template <typename Number>
Number volume(const DataSpace& space, const Number* box) {
    Number words = 1.0;
    for (const Rank& rank : space.ranks) words *= extent(rank, box);
    return words;
}

// A storage level. Energies in pJ per vector access, bandwidths in words per cycle and instance.
struct Level {
    double usable = -1, least = 0;       // most and least words of a mapping's tiles; usable < 0: no limit
    double fanout_x = 1, fanout_y = 1;   // units below
    double clusters = 1, block = 1, read = 0, fill = 0, update = 0, leak = 0, address = 0;
    double read_bandwidth = UNLIMITED, write_bandwidth = UNLIMITED, shared_bandwidth = UNLIMITED;
    double gated = 1;                    // instances per instance of the level `gate`, with which they are switched off
    int gate = 0;

    bool has_fanout() const { return fanout_x > 1 || fanout_y > 1; }
    bool limited() const { return std::min({read_bandwidth, write_bandwidth, shared_bandwidth}) < UNLIMITED; }

    // Calls `take` with the words that go through each port with a limit, and the limit.
    template <typename Number, typename Take>
    void at_limited_ports(Number read, Number written, Take take) const {
        if (read_bandwidth < UNLIMITED) take(read, read_bandwidth);
        if (write_bandwidth < UNLIMITED) take(written, write_bandwidth);
        if (shared_bandwidth < UNLIMITED) take(read + written, shared_bandwidth);
    }
};

struct Layer {
    int levels = 0, dims = 0, tensors = 0;
    std::vector<DataSpace> spaces;
    std::vector<Level> level;
    std::vector<Unit> units;                  // [L + 1]; limits: the arithmetic first, then the levels
    std::vector<double> bandwidth_scale;      // [L][T]
    std::vector<double> whole, partial, per;  // [L][T]; words of the level per element, and per partial sum, are `whole / per`
                                              // and `partial / per`; empty: 1
    double compute_energy = 0, network_latency = 0;

    // Kinds of reuse across the boundary below each level, and in the level; [L][T].
    std::vector<std::uint8_t> held, multicast, linked, first_written, coalesced;

    std::vector<Interconnect> interconnects;
    bool priced = false;                      // some interconnect costs energy: hops are counted

    int places() const { return 2 * levels; }
    bool packed() const { return !per.empty(); }

    // Leaking instances, with `used` instances of each level in use: also idle instances behind a power gate that is on.
    template <typename Number>
    Number leaking(int own, const std::vector<Number>& used) const {
        return level[own].gated > 1 ? used[level[own].gate] * level[own].gated : used[own];
    }

    // Words of a level that so many elements, or so many partial sums, of a data space take.
    double in_words(int level, int t, double elements, bool sums = false) const {
        const std::size_t cell = std::size_t(level) * tensors + t;
        return packed() ? elements * (sums ? partial : whole)[cell] / per[cell] : elements;
    }
};

// One mapping of a layer. Places run from the innermost loops outwards: 2 l are the spatial loops of level l (the
// fan-out below it), 2 l + 1 its temporal loops.
struct Mapping {
    std::vector<double> factor;                 // [2 L][D]
    std::vector<std::uint8_t> order;            // [L][D]; dimensions of the temporal loops, innermost first
    std::vector<std::uint8_t> spatial_order;    // [L][D]; dimensions of the spatial loops, innermost first per axis
    std::vector<std::uint8_t> on_y;             // [L][D]; by dimension: whether the spatial loop lies on the Y axis
    std::vector<std::uint8_t> keep;             // [L][T]
    std::vector<Dims> looping;                  // [2 L]; dimensions with a factor above 1
    std::vector<double> last;                   // [2 L][D]; iterations of a loop's last run; empty: no residuals

    explicit Mapping(const Layer& layer)
        : factor(std::size_t(layer.places()) * layer.dims, 1.0), order(std::size_t(layer.levels) * layer.dims),
          spatial_order(order.size()), on_y(order.size()), keep(std::size_t(layer.levels) * layer.tensors, 1),
          looping(layer.places()) {}

    void find_loops(int dims) {
        const double* own = factor.data();
        for (Dims& loops : looping) {
            loops = 0;
            for (int d = 0; d < dims; ++d) loops |= Dims(*own++ > 1) << d;
        }
    }

    const double* spatial(int level, int dims) const { return factor.data() + std::size_t(2 * level) * dims; }
    const double* temporal(int level, int dims) const { return factor.data() + std::size_t(2 * level + 1) * dims; }
};

// The price of a part of a network: its share in the energy of the whole network plus its share in the cycles, to first order
// the change of the logarithm of the EDP (fusion/prices.py). A total that does not count is infinite.
struct Price {
    double energy, cycles;

    template <typename Number>
    Number of(Number pj, Number some) const {
        return pj / energy + some / cycles;
    }

    bool operator==(const Price& other) const { return energy == other.energy && cycles == other.cycles; }
};

// The metric that a search minimises (inputs/spec/spec.py:metric_of); SHARE is the price of a mapping as a part of a network.
enum class Metric { EDP, ENERGY, DELAY, LAST_LEVEL_ACCESSES, SHARE };

inline double metric_of(Metric metric, double energy, double cycles, double accessed, const Price& price) {
    switch (metric) {
        case Metric::EDP: return energy * cycles;
        case Metric::ENERGY: return energy;
        case Metric::DELAY: return cycles;
        case Metric::LAST_LEVEL_ACCESSES: return accessed;
        default: return price.of(energy, cycles);
    }
}

}  // namespace fadiff
