#include "loop_cuts.hpp"

#include <algorithm>
#include <optional>

namespace fadiff {
inline namespace FADIFF_LANES {

// Points of an intermediate under some points of its consumer, with outputs of resizing of an input before the window.
static Lanes reach(const ReadSlide& slide, Lanes points, Lanes lead) {
    const Lanes reach = (points - 1) * slide.stride + slide.span;
    return slide.resizes() ? ceil((reach + lead) / slide.shrink) * slide.block : reach;
}

// The same for the first points of the consumer.
static Lanes reach(const ReadSlide& slide, Lanes points) { return reach(slide, points, slide.lead); }

// What bounds tiles in all sizes of a box: steps in the smallest one, of the layer and of its reader; where it is the only one; and
// whether words may be retained or computed again.
struct Widest {
    const LoopCut &own, &reader;
    Mask single;
    bool open;
};

// A loop as a layer sees it, from how the reader of its output does: through the window by which that one reads. `least`: points
// and steps are those that no group undercuts; `widest`: nor does a step of any group have a larger tile.
static LoopCut cut_before(const FusedSegment& segment, int index, const LoopCut& after, bool retained, bool least,
                          const std::optional<Widest>& widest) {
    const FusedLink& link = segment.links[index];
    const auto found = after.dim < 0 ? link.theirs.end() : std::find(link.theirs.begin(), link.theirs.end(), after.dim);
    LoopCut cut;
    if (found == link.theirs.end()) {
        cut.steps = retained ? Lanes(1) : after.steps;
        return cut;
    }
    cut.dim = int(found - link.theirs.begin());
    const ReadSlide& slide = link.slides[cut.dim];
    const double extent = segment.layers[index].bounds[cut.dim];
    const bool resizes = slide.resizes();
    cut.again = after.again || slide.span > slide.stride || resizes;
    cut.advance = slide.advance * after.advance;
    cut.skewed = after.skewed;
    if (resizes) cut.skewed += where(floor(cut.advance / slide.block) * slide.block != cut.advance, Lanes(1));
    const Lanes largest = larger(after.first, after.later);
    // where a first step lies in padding, the first one with work may be any of the reader's
    const Lanes first = widest ? select(widest->reader.first > 0.0, after.first, largest) : after.first;
    cut.first = smaller(reach(slide, first) - slide.ahead, extent);
    // a bound may count a single step where padding leaves others without work: the largest tile is any of them
    const Lanes tile = widest ? largest : least ? select((after.steps > 1.0) | !(after.ahead + after.behind > 0.0), after.usual(),
                                                         largest) : after.usual();
    // wherever it begins, unless all begin alike
    const Lanes lead = widest ? select(widest->single & !(cut.skewed + after.ahead > 0.0), slide.lead, slide.shrink - 1)
                              : slide.lead;
    const Lanes later = smaller(reach(slide, tile, lead), extent);
    const Lanes stop = reach(slide, after.distinct) - slide.ahead;    // with padding behind the last point
    const Lanes whole = smaller(stop, extent), behind = stop - whole;
    cut.ahead = after.ahead * slide.advance + larger(slide.ahead, 0.0);
    cut.behind = after.behind * slide.advance + behind;
    // points that a stride leaves out between steps are not computed
    const double gap = std::max(slide.stride - slide.span, 0.0) * slide.block / slide.shrink;
    const Lanes every = least ? larger(whole - (after.steps - 1) * gap, 1.0) : whole;
    cut.distinct = every;
    if (retained) {     // the last steps may find all their points there
        const Lanes moved = smaller(later, cut.advance);
        const Lanes most = widest ? select(cut.skewed > 0.0, later, moved) : resizes ? later : moved;
        cut.points = every;
        cut.later = !widest ? moved : widest->open ? later : most;
        if (widest) cut.uneven = where(cut.later > moved, Lanes(1));
        // a first tile that lies in padding has no points
        const Lanes begun = larger(cut.first, 0.0), started = where((widest ? widest->own.first : begun) > 0.0, Lanes(1));
        cut.steps = smaller(after.steps, larger(ceil((every - begun) / most) + started, 1.0));
    } else {    // padding shortens the first and the last windows; even so, every point is computed at least once
        const Lanes begin = least ? smaller(after.steps, ceil(cut.ahead / cut.advance)) : Lanes(1);
        const Lanes end = least ? smaller(after.steps, ceil(cut.behind / cut.advance) + 1) : Lanes(1);
        const Lanes again = after.steps * reach(slide, after.average()) - begin * slide.ahead - end * behind;
        cut.points = larger(smaller(again, after.steps * extent), every);
        cut.later = later;
        cut.steps = after.steps;
        if (least)  // windows that lie in the padding need no step
            cut.steps = select(behind + larger(slide.ahead, 0.0) >= slide.span, Lanes(1), after.steps);
    }
    cut.needed = larger(cut.first, later);
    return cut;
}

void cut_layers(const FusedSegment& segment, const std::vector<int>& dims, const Lanes* sizes,
                const std::vector<Loops64>& retained, LoopCut* cuts, bool least, const WidestTiles* widest) {
    const int layers = int(segment.layers.size()), loops = int(dims.size());
    for (int loop = 0; loop < loops; ++loop) {
        const double bound = segment.layers.back().bounds[dims[loop]];
        const Lanes size = sizes[loop];
        const int last = (layers - 1) * loops + loop;
        cuts[last] = {dims[loop], ceil(bound / size), bound, bound, size, size, size, size};
        // Returns whether an output is resized, or in the smallest tiles padding may leave a first step without work.
        const auto carry_back = [&](const WidestTiles* box) {
            bool uncertain = false;
            for (int index = layers - 2; index >= 0; --index) {
                const int own = index * loops + loop, reader = segment.reader(index) * loops + loop;
                std::optional<Widest> bounds;
                if (box) bounds.emplace(Widest{box->smallest[own], box->smallest[reader], box->smallest[last].first == size,
                                               bool(box->open[index] >> loop & 1)});
                cuts[own] = cut_before(segment, index, cuts[reader], retained[index] >> loop & 1, least, bounds);
                uncertain |= cuts[own].dim >= 0 && (segment.links[index].slides[cuts[own].dim].resizes() ||
                                                    (widest && !(widest->smallest[own].first > 0.0).all()));
            }
            return uncertain;
        };
        if (carry_back(nullptr) && widest) carry_back(widest);
    }
}

Lanes computed(const FusedLayer& layer, const LoopCut* cuts, int loops) {
    Lanes times = 1;
    for (int loop = 0; loop < loops; ++loop)
        times *= cuts[loop].dim < 0 ? cuts[loop].steps : cuts[loop].points / layer.bounds[cuts[loop].dim];
    return times;
}

// Distinct points along a rank of some extents: no hole opens where a stride is no greater than the extent so far.
template <typename Extent>
static Lanes distinct_along(const Rank& rank, Extent extent_of_dim) {
    Lanes extent = 1;
    for (const Rank::Term& term : rank.terms) extent += smaller(Lanes(term.coefficient), extent) * (extent_of_dim(term.dim) - 1);
    return extent;
}

Lanes distinct_words(const DataSpace& space, const Lanes* extents) {
    Lanes words = 1;
    for (const Rank& rank : space.ranks) words *= distinct_along(rank, [&](int dim) { return extents[dim]; });
    return words;
}

// Points along a rank that all steps of a loop along it touch together.
static Lanes walked(const FusedLayer& layer, const Rank& rank, const LoopCut& cut, bool holes) {
    double stride = 1, dilation = 1;
    for (const Rank::Term& term : rank.terms) {
        if (term.dim == cut.dim) stride = term.coefficient;
        else dilation = std::max(dilation, term.coefficient);
    }
    // Points of the rank's dimensions where the loop's own has so many.
    const auto with_own = [&](auto points) {
        return [&, points](int dim) { return dim == cut.dim ? points : decltype(points)(layer.bounds[dim]); };
    };
    const double width = extent_along(rank, with_own(1.0));  // under one point of the loop
    if (holes || (stride <= width && dilation == 1)) return cut.steps * extent_along(rank, with_own(cut.average()));
    // fewer for each point of a larger tile
    const Lanes largest = larger(cut.largest(), cut.average());
    return cut.points / largest * distinct_along(rank, with_own(largest));
}

Lanes fetched(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across, bool holes) {
    const DataSpace& space = layer.spaces[tensor];
    Lanes words = 1;
    for (int loop = 0; loop < loops; ++loop)
        if ((cuts[loop].dim < 0 || !layer.moves(tensor, cuts[loop].dim)) && !(across >> loop & 1))
            words *= cuts[loop].steps;
    for (const Rank& rank : space.ranks) {
        int walking = -1;  // the innermost loop along the rank whose steps fetch new words
        for (int loop = 0; loop < loops; ++loop)
            if (cuts[loop].dim >= 0 && rank.dims >> cuts[loop].dim & 1 && !(across >> loop & 1)) walking = loop;
        words *= walking >= 0 ? walked(layer, rank, cuts[walking], holes)
            : holes ? Lanes(extent(rank, layer.bounds.data()))
            : distinct_along(rank, [&](int dim) { return Lanes(layer.bounds[dim]); });
    }
    return words;
}

Lanes held(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across, const FusedLink* link,
           const LoopCut* last) {
    Box box;
    Lanes* extents = box.lanes;
    std::copy(layer.bounds.begin(), layer.bounds.end(), extents);
    bool outlives = false;  // kept along an outer loop: the inner ones walk through all of it
    for (int loop = 0; loop < loops; ++loop) {
        if (cuts[loop].dim >= 0) {
            Lanes& extent = extents[cuts[loop].dim];
            const Lanes tile = link ? cuts[loop].needed : cuts[loop].largest();
            if (!outlives) extent = tile;
            else if (last) extent = select(last[loop].steps > 1.0, extent, smaller(tile, extent));
        }
        outlives = outlives || across >> loop & 1;
    }
    if (!link) return volume(layer.spaces[tensor], extents);
    for (int dim = 0; dim < layer.dims(); ++dim) extents[dim] = ceil(extents[dim] / link->stored[dim]);
    return ceil(volume(layer.spaces[tensor], extents) * link->lying / link->lying_per);
}

Lanes outlasting(const FusedLayer& layer, const LoopCut* cuts, int loops, Loops64 across, const FusedLink& link) {
    const Loops64 kept = across & ((Loops64(1) << loops) - 1);
    if (!kept) return 0;
    const Lanes words = held(layer, layer.output, cuts, loops, across, &link);
    const LoopCut& innermost = cuts[loops - 1];
    if (kept != Loops64(1) << (loops - 1) || innermost.dim < 0) return words;
    const double stored = link.stored[innermost.dim];
    return words * ceil(larger(innermost.needed - innermost.advance, 0.0) / stored) / ceil(innermost.needed / stored);
}

void largest_tile(const FusedLayer& layer, const LoopCut* cuts, int loops, Lanes* extents) {
    std::copy(layer.bounds.begin(), layer.bounds.end(), extents);
    for (int loop = 0; loop < loops; ++loop)
        if (cuts[loop].dim >= 0) extents[cuts[loop].dim] = cuts[loop].largest();
}

}  // namespace FADIFF_LANES
}  // namespace fadiff
