#include "correction.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace fadiff {

// A mapping as a run of equal tiles (TiledRun of calibration/features.py).
struct Correction::Run {
    std::vector<double> bounds, tile;  // [D]
    double tiles, partial, side, steps, blocks;
    bool product;
};

static double up(double value) { return std::ceil(value - Correction::ROUNDING); }

static bool among(const std::vector<int>& dims, int dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

static double over(const std::vector<double>& extents, const std::vector<int>& dims) {
    double product = 1;
    for (const int d : dims) product *= extents[d];
    return product;
}

static double over_all(const std::vector<double>& extents) {
    return std::accumulate(extents.begin(), extents.end(), 1.0, std::multiplies<>());
}

Correction::Run Correction::run_of(const std::vector<double>& inner, const std::vector<double>& outer, double side) const {
    const auto wide = std::count_if(positions.begin(), positions.end(), [&](int d) { return bounds[d] > 1; });
    const bool product = over(bounds, windows) == 1 && wide <= 1;
    std::vector<double> tile = bounds;
    for (std::size_t d = 0; d < bounds.size(); ++d) tile[d] /= outer[d];
    if (program == AS_MAPPED)
        return {bounds, tile, over_all(outer), over(outer, reduced) * over(outer, windows), side, over_all(inner),
                over(inner, reduced) * over(inner, windows) * over(inner, produced) * over(inner, groups), product};
    std::vector<double> own = bounds, count(bounds.size());
    if (!product) {
        double largest = 0;
        for (const int d : sliding) largest = std::max(largest, bounds[d]);
        for (const int d : sliding) own[d] = largest;
    }
    for (int d = 0; d < int(own.size()); ++d) {
        if (product && !among(groups, d) && !among(windows, d)) {
            const double whole = std::max(std::floor(tile[d] / BLOCK + ROUNDING), 1.0);
            count[d] = up(up(own[d] / side) / whole);
            tile[d] = std::min(whole * side, own[d]);
        } else {
            count[d] = up(own[d] / tile[d]);
        }
    }
    double sets = over(tile, windows) * over(tile, groups);
    for (const auto* dims : {&reduced, &produced})
        for (const int d : *dims) sets *= up(tile[d] / side);
    return {own, tile, over_all(count), over(count, reduced) * over(count, windows), side, sets * over(tile, positions), sets, product};
}

double Correction::price(const Layer& layer, const Run& run) const {
    const DataSpace& space = layer.spaces[inputs];
    double pixels = 1, all_pixels = 1;
    for (const int d : positions)
        if (!among(sliding, d)) pixels *= run.tile[d], all_pixels *= run.bounds[d];
    for (const int d : sliding) {
        std::size_t r = 0;
        while (space.ranks[r].terms.size() < 2 || !(space.ranks[r].dims >> d & 1)) ++r;
        const double stride = space.move[r * layer.dims + d];
        pixels *= std::min(extent(space.ranks[r], run.tile.data()), run.bounds[d] * stride);
        all_pixels *= extent(space.ranks[r], run.bounds.data());
    }
    struct Transfers {
        double beats, misses, lines, pages;
    };
    const auto transfers = [&](double rows, double all_rows, const std::vector<int>& channels) -> Transfers {
        rows *= over(run.tile, groups);
        const double width = over(run.tile, channels) * word_bytes, pitch = over(run.bounds, channels) * word_bytes;
        const double total = all_rows * over(run.bounds, groups) * pitch, missing = total / (total + CACHE);
        const auto touched = [&](double unit) { return std::max(std::min(pitch / unit, 1.0), width / unit); };
        return {rows * std::max(width / BEAT, 1.0), rows * touched(LINE) * missing, rows * width / LINE * missing, rows * touched(PAGE)};
    };
    const auto taps = [&](const std::vector<double>& extents) { return over(extents, windows) * over(extents, reduced); };
    const Transfers input = transfers(pixels, all_pixels, reduced), weight = transfers(taps(run.tile), taps(run.bounds), produced),
                    output = transfers(over(run.tile, positions), over(run.bounds, positions), produced);
    double beside = 1;
    for (const int d : positions) beside *= d == stream ? 1 : run.tile[d];
    const double along = stream < 0 ? 1 : run.tile[stream];

    // The features, in their order in Python, with the part of the machine that each occupies.
    enum Part { START_UP, COMPUTE, STREAMS, MEMORY, ONCE };
    const std::pair<Part, double> features[FEATURES] = {
        {START_UP, 1}, {START_UP, run.product ? 0 : 1}, {COMPUTE, run.steps},
        {STREAMS, run.blocks * beside * up(along / run.side) * std::min(run.side, WIDEST)},
        {MEMORY, input.beats}, {MEMORY, input.misses}, {MEMORY, input.lines},
        {MEMORY, weight.beats}, {MEMORY, weight.misses}, {MEMORY, weight.lines}, {MEMORY, weight.pages},
        {MEMORY, output.misses / run.partial}, {ONCE, 1 / run.tiles}, {ONCE, (input.beats + weight.beats) / run.tiles}};
    double cycles[ONCE + 1] = {};
    for (int feature = 0; feature < FEATURES; ++feature)
        cycles[features[feature].first] += coefficients[feature] * features[feature].second;
    const double longest = *std::max_element(cycles, cycles + ONCE);
    double sum = 0;
    for (int part = 0; part < ONCE; ++part) sum += std::pow(cycles[part] / longest, norm);
    return run.tiles * (longest * std::pow(sum, 1 / norm) + cycles[ONCE]);
}

double Correction::cycles(const Layer& layer, const MappingPack& pack, int lane) const {
    std::vector<double> inner(layer.dims, 1.0), outer = inner, spatial = inner;
    for (int level = 0; level < layer.levels; ++level) {
        for (const int d : members(pack.temporal_dims(level)))
            (level + 1 < layer.levels ? inner : outer)[d] *= pack.temporal(level, layer.dims)[d][lane];
        for (const int d : members(pack.spatial_dims(level))) spatial[d] *= pack.spatial(level, layer.dims)[d][lane];
    }
    const double widest = *std::max_element(spatial.begin(), spatial.end());
    return price(layer, run_of(inner, outer, std::exp2(std::ceil(std::log2(widest) - ROUNDING))));
}

}  // namespace fadiff
