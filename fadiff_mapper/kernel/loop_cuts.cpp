#include "loop_cuts.hpp"

#include <algorithm>
#include <cmath>

namespace fadiff {

double ReadSlide::reach(double points) const {
    const double reach = (points - 1) * stride + span;
    return shrink == 1 && block == 1 ? reach : std::ceil((reach + lead) / shrink) * block;
}

double extent_of(const Rank& rank, const double* extents) {
    double extent = 1;
    for (const Rank::Term& term : rank.terms) extent += term.coefficient * (extents[term.dim] - 1);
    return extent;
}

const Rank& FusedSpace::moved_by(int dim) const {
    return *std::find_if(ranks.begin(), ranks.end(), [dim](const Rank& rank) { return rank.dims >> dim & 1; });
}

double FusedSpace::words(const double* extents) const {
    double words = 1;
    for (const Rank& rank : ranks) words *= extent_of(rank, extents);
    return words;
}

// A loop as a layer sees it, from how the next layer does: through the window by which that one reads.
static LoopCut cut_before(const FusedSegment& segment, int index, const LoopCut& after, bool retained) {
    const FusedLink& link = segment.links[index];
    const auto found = after.dim < 0 ? link.theirs.end() : std::find(link.theirs.begin(), link.theirs.end(), after.dim);
    LoopCut cut;
    if (found == link.theirs.end()) {
        cut.steps = retained ? 1 : after.steps;
        return cut;
    }
    cut.dim = int(found - link.theirs.begin());
    cut.steps = after.steps;
    const ReadSlide& slide = link.slides[cut.dim];
    const double extent = segment.layers[index].bounds[cut.dim];
    cut.first = std::min(slide.reach(after.first) - slide.ahead, extent);
    const double later = std::min(slide.reach(after.usual()), extent);
    const double whole = std::min(slide.reach(after.points) - 2 * slide.ahead, extent);
    const double again = std::min(after.steps * slide.reach(after.average()) - 2 * slide.ahead, after.steps * extent);
    cut.advance = slide.advance * after.advance;
    // Padding shortens the first and the last window; even so, every point is computed at least once.
    cut.points = retained ? whole : std::max(again, whole);
    cut.later = retained ? std::min(later, cut.advance) : later;
    cut.needed = std::max(cut.first, later);
    return cut;
}

void cut_layers(const FusedSegment& segment, const std::vector<int>& dims, const double* sizes,
                const std::vector<Loops64>& retained, Cuts& cuts) {
    const int layers = int(segment.layers.size()), loops = int(dims.size());
    cuts.loops = loops;
    cuts.of.resize(std::size_t(layers) * loops);
    for (int loop = 0; loop < loops; ++loop) {
        LoopCut& last = cuts.of[std::size_t(layers - 1) * loops + loop];
        const double bound = segment.layers.back().bounds[dims[loop]], size = sizes[loop];
        last = {dims[loop], std::ceil(bound / size), bound, size, size, size, size};
        for (int index = layers - 2; index >= 0; --index)
            cuts.of[std::size_t(index) * loops + loop] =
                cut_before(segment, index, cuts.at(index + 1, loop), retained[index] >> loop & 1);
    }
}

double computed(const FusedLayer& layer, const LoopCut* cuts, int loops) {
    double times = 1;
    for (int loop = 0; loop < loops; ++loop)
        times *= cuts[loop].dim < 0 ? cuts[loop].steps : cuts[loop].points / layer.bounds[cuts[loop].dim];
    return times;
}

// Points along the rank that a dimension moves, touched by so many of its points.
static double reach_of(const FusedLayer& layer, const Rank& rank, int dim, double points) {
    double extent = 1;
    for (const Rank::Term& term : rank.terms)
        extent += term.coefficient * ((term.dim == dim ? points : layer.bounds[term.dim]) - 1);
    return extent;
}

double fetched(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across) {
    const FusedSpace& space = layer.spaces[tensor];
    double words = 1;
    for (int loop = 0; loop < loops; ++loop)
        if ((cuts[loop].dim < 0 || !layer.moves(tensor, cuts[loop].dim)) && !(across >> loop & 1)) words *= cuts[loop].steps;
    for (const Rank& rank : space.ranks) {
        double extent = extent_of(rank, layer.bounds.data());
        for (int loop = 0; loop < loops; ++loop) {
            const LoopCut& cut = cuts[loop];
            if (cut.dim >= 0 && rank.dims >> cut.dim & 1 && !(across >> loop & 1))
                extent = cut.steps * reach_of(layer, rank, cut.dim, cut.average());
        }
        words *= extent;
    }
    return words;
}

double held(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across, const FusedLink* link) {
    double extents[64];
    std::copy(layer.bounds.begin(), layer.bounds.end(), extents);
    bool outlives = false;  // kept along an outer loop: the inner ones walk through all of it
    for (int loop = 0; loop < loops; ++loop) {
        if (cuts[loop].dim >= 0 && !outlives) extents[cuts[loop].dim] = link ? cuts[loop].needed : cuts[loop].largest();
        outlives = outlives || across >> loop & 1;
    }
    if (!link) return layer.spaces[tensor].words(extents);
    for (int dim = 0; dim < layer.dims(); ++dim) extents[dim] = std::ceil(extents[dim] / link->stored[dim]);
    return std::ceil(layer.spaces[tensor].words(extents) * link->lying / link->lying_per);
}

double outlasting(const FusedLayer& layer, const LoopCut* cuts, int loops, Loops64 across, const FusedLink& link) {
    const Loops64 kept = across & ((Loops64(1) << loops) - 1);
    if (!kept) return 0;
    const double words = held(layer, layer.output, cuts, loops, across, &link);
    const LoopCut& innermost = cuts[loops - 1];
    if (kept != Loops64(1) << (loops - 1) || innermost.dim < 0) return words;
    const double stored = link.stored[innermost.dim];
    return words * std::ceil(std::max(innermost.needed - innermost.advance, 0.0) / stored)
        / std::ceil(innermost.needed / stored);
}

void largest_tile(const FusedLayer& layer, const LoopCut* cuts, int loops, double* extents) {
    std::copy(layer.bounds.begin(), layer.bounds.end(), extents);
    for (int loop = 0; loop < loops; ++loop)
        if (cuts[loop].dim >= 0) extents[cuts[loop].dim] = cuts[loop].largest();
}

}  // namespace fadiff
