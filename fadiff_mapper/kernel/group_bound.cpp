#include "group_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "loop_cuts.hpp"

namespace fadiff {
inline namespace FADIFF_LANES {

static const double NEVER = std::numeric_limits<double>::infinity();

// The most steps of a loop in a box over its least, below which the order is chosen. Set by hand.
static const double WIDE = 4.5;

// The part by which a price must rise to count as higher: a guard against rounding.
static const double HIGHER = 1e-9;

namespace {

// One residency of an operand from outside.
struct Choice {
    Lanes reads;    // words from outside over all steps
    Lanes held;     // words that lie there
    bool stays;
};

// The shared loops as all layers see them, in the smallest and in the largest tiles, [layer][loop].
struct Cuts {
    std::vector<LoopCut> small, large;
    int loops;

    const LoopCut* smallest(int layer) const { return small.data() + std::size_t(layer) * loops; }
    const LoopCut* largest(int layer) const { return large.data() + std::size_t(layer) * loops; }
};

}  // namespace

// The residencies of an operand: in no step, or from one step to the next along more and more of the loops that share
// words of it, the innermost first. In an open order each of the loops may be the innermost one. `brought`: whether an
// earlier layer may have brought it, so that it is there in a tile's room.
static void list_choices(const FusedLayer& layer, int tensor, const LoopCut* small, const LoopCut* large, int loops,
                         bool open, bool brought, std::vector<Choice>& found) {
    found.clear();
    if (brought) found.push_back({0, held(layer, tensor, small, loops, 0), true});
    found.push_back({fetched(layer, tensor, large, loops, 0, false), 0, false});
    if (open) {
        found.push_back({fetched(layer, tensor, large, loops, ~Loops64(0), false),
                         held(layer, tensor, small, loops, 0), true});
        return;
    }
    Loops64 across = 0;
    for (int loop = loops - 1; loop >= 0; --loop) {
        const int dim = large[loop].dim;
        if (dim >= 0 && layer.moves(tensor, dim) && layer.rank_of(tensor, dim).terms.size() < 2) continue;
        across |= Loops64(1) << loop;
        found.push_back({fetched(layer, tensor, large, loops, across, false),
                         held(layer, tensor, small, loops, across), true});
    }
}

// The least words of a first layer's operands where neither stays from step to step, all steps together. All sums of a
// tile lie on the chip while both operands pass by, or a block of one operand lies in the home while the other passes
// by. In smaller tiles more words come in per multiply-accumulate, so the largest tile counts, in parts of steps.
static Lanes streamed(const FusedLayer& layer, const LoopCut* large, int loops, Lanes room, double unfinished,
                      Lanes once) {
    Box tile;
    Lanes* extents = tile.lanes;
    std::copy(layer.bounds.begin(), layer.bounds.end(), extents);
    Lanes steps = 1;
    for (int loop = 0; loop < loops; ++loop) {
        if (large[loop].dim < 0) {
            steps *= large[loop].steps;
        } else {
            extents[large[loop].dim] = large[loop].largest();
            steps *= large[loop].points / large[loop].largest();
        }
    }
    int operands[2], count = 0;
    for (int t = 0; t < int(layer.spaces.size()); ++t)
        if (!layer.spaces[t].written) operands[count++] = t;
    const Dims output = layer.spaces[layer.output].relevant;
    const auto [a, b] = operands;
    Lanes rows = 1, columns = 1, groups = 1;
    for (int dim = 0; dim < layer.dims(); ++dim) {
        if (!(output >> dim & 1)) continue;
        const bool left = layer.moves(a, dim), right = layer.moves(b, dim);
        (left && right ? groups : left ? rows : columns) *= extents[dim];
    }
    const Lanes first = distinct_words(layer.spaces[a], extents), second = distinct_words(layer.spaces[b], extents);
    // of one group at a time, which has the room for itself
    const Lanes one = first / groups, other = second / groups, space = larger(room, 1.0);
    Lanes least = smaller(one + other * larger(one / space, 1.0), other + one * larger(other / space, 1.0));
    // sums of a block of `height` rows and `width` columns at a time
    const Lanes square = unfinished * one * columns / (other * rows);
    const Lanes root = lanes_of([&](int lane) { return std::sqrt(square[lane]); });
    const Lanes width = smaller(larger(root, unfinished / rows), columns);
    const Lanes height = smaller(unfinished / width, rows);
    least = smaller(least, one * columns / width + other * rows / height);
    return larger(steps * groups * least, once);
}

// Leaves of the smallest tiles of a loop what is certain: padding shortens the first steps and the last ones. With as
// many steps as windows reach into padding on both sides, and one more, some step reads none of it.
static void inner_steps(const FusedSegment& segment, int loop, Cuts& cuts) {
    const int count = int(segment.layers.size()), loops = cuts.loops;
    std::vector<double> reached(std::size_t(count), 0);
    for (int index = count - 2; index >= 0; --index) {
        LoopCut& cut = cuts.small[std::size_t(index) * loops + loop];
        if (cut.dim < 0) continue;
        const ReadSlide& slide = segment.links[index].slides[cut.dim];
        double& own = reached[std::size_t(index)];
        own = reached[std::size_t(segment.reader(index))]
            + (slide.ahead > (slide.shrink > 1 || slide.block > 1 ? 0 : slide.advance) ? NEVER : slide.ahead > 0);
        const Mask inside = cuts.largest(index)[loop].steps >= 2 * own + 1;
        cut.needed = select(inside, cut.needed, cut.first);
        cut.later = select(inside, cut.later, smaller(cut.later, cut.first));
    }
}

// Energy and cycles in eight boxes of one order, with the loops along which intermediates stay.
static void least_of(const FusedSegment& segment, const std::vector<LayerLeast>& layers, const HomeLevel& home,
                     const LoopOrder& order, const std::array<std::uint8_t, MOST_LINKS>& kept, const Cuts& cuts, Lanes& energy,
                     Lanes& cycles) {
    const int count = int(segment.layers.size()), loops = cuts.loops;
    const FusedLayer& last = segment.layers.back();
    const LoopCut *last_small = cuts.smallest(count - 1), *last_large = cuts.largest(count - 1);
    std::vector<Lanes> room(count, Lanes(home.usable));
    Lanes resting = 0;  // words of intermediates that outlast a step
    for (int index = 0; index + 1 < count; ++index) {
        const FusedLayer& layer = segment.layers[index];
        const FusedLink& link = segment.links[index];
        const LoopCut* own = cuts.smallest(index);
        const Lanes lying = held(layer, layer.output, own, loops, kept[index], &link);
        Lanes rest = kept[index] ? lying : Lanes(0);
        for (int loop = 0; loop < loops; ++loop) {
            if (kept[index] != 1 << loop || own[loop].dim < 0) continue;
            Lanes inside = 1;   // steps of the loops inside the one along which words stay
            for (int inner = loop + 1; inner < loops; ++inner) inside *= last_large[inner].steps;
            const double stored = link.stored[own[loop].dim];
            const Lanes shared = ceil(larger(own[loop].needed - own[loop].advance, 0.0) / stored);
            rest = select(inside > 1, lying, lying * shared / ceil(own[loop].needed / stored));
        }
        resting += rest;
        for (int running = index; running <= segment.reader(index); ++running)
            room[running] = room[running] - (lying - rest);
    }
    Lanes rounds = 1, sums = 1;     // rounds of the loops that add to sums, and words of these that stay
    Loops64 adding = 0;
    bool inside = false, home_sums = false;     // whether sums rest in the home, as other loops are inside such a loop
    for (int loop = 0; loop < loops; ++loop) {
        const bool adds = !last.moves(last.output, order.dims[loop]);
        if (adds) rounds *= last_large[loop].steps, adding |= Loops64(1) << loop;
        home_sums = home_sums || (inside && !adds);
        inside = inside || adds;
    }
    home_sums = home_sums && !order.spilled && !order.open;
    Box tile;
    largest_tile(last, last_small, loops, tile.lanes);
    if (home_sums) resting += held(last, last.output, last_small, loops, adding);
    else if (!order.spilled && !order.open) sums = words_of(last.spaces[last.output], tile.lanes);
    Lanes least = NEVER;
    for (Lanes& own : room) own = own - resting, least = smaller(least, own);
    const Mask never = ((rounds > 1) & (sums > last.sums_room)) | (least < 0);
    energy = cycles = 0;
    std::vector<Choice> choices, others;
    for (int index = 0; index < count; ++index) {
        const FusedLayer& layer = segment.layers[index];
        const LayerLeast& own = layers[index];
        const LoopCut *small = cuts.smallest(index), *large = cuts.largest(index);
        const Lanes times = computed(layer, large, loops);
        Lanes reads = 0, writes = own.written;  // words from and to the outermost level
        Lanes inward = 0;                       // words that the home reads
        std::vector<int> outside;
        for (int t = 0; t < int(layer.spaces.size()); ++t) {
            if (layer.spaces[t].written) continue;
            if (!(layer.handed >> t & 1)) outside.push_back(t);
            // each step takes what its tile needs
            if (own.through >> t & 1)
                inward += larger(own.inward[t] * times, fetched(layer, t, large, loops, 0, false) * own.done);
        }
        const auto list = [&](int t, std::vector<Choice>& found) {
            list_choices(layer, t, small, large, loops, order.open, own.brought >> t & 1, found);
        };
        if (own.streams && outside.size() == 2) {
            list(outside[0], choices);
            list(outside[1], others);
            const double once = own.once[outside[0]] + own.once[outside[1]];
            const Lanes passing = streamed(layer, large, loops, room[index], own.unfinished, once);
            reads = NEVER;
            for (const Choice& one : choices)
                for (const Choice& other : others) {
                    Lanes words = one.reads + other.reads;
                    if (!one.stays && !other.stays) words = larger(words, passing);
                    reads = smaller(reads, select(one.held + other.held > least, NEVER, words));
                }
            reads = larger(reads * own.done, once);
        } else {
            for (int t : outside) {
                list(t, choices);
                Lanes words = NEVER;
                for (const Choice& one : choices) words = smaller(words, select(one.held > least, NEVER, one.reads));
                reads += larger(words * own.done, own.once[t]);
            }
        }
        const Lanes back = index + 1 == count ? words_of(layer.spaces[layer.output], layer.bounds.data()) * (rounds - 1) : 0;
        if (home_sums) inward += back;
        energy += own.energy * times + reads * own.fill + inward * layer.home_price[0];
        if (order.spilled) {
            reads += back;
            writes += back;
        }
        energy += reads * layer.read + writes * layer.write;
        cycles += larger(larger(own.cycles * times, inward / home.bandwidth), (reads + writes) / layer.words_per_cycle);
    }
    energy = select(never, NEVER, energy * segment.repeat);
    cycles = select(never, NEVER, cycles * segment.repeat);
}

}  // namespace FADIFF_LANES

void GroupBound::evaluate(std::vector<GroupPart>& parts) const {
    const LoopOrder& order = orders_[parts[0].order];
    const std::size_t count = segment_.layers.size();
    const int loops = int(order.dims.size());
    std::vector<Loops64> retained;
    for (std::size_t link = 0; link + 1 < count; ++link) retained.push_back(~Loops64(parts[0].again[link]));
    Cuts cuts{std::vector<LoopCut>(count * loops), std::vector<LoopCut>(count * loops), loops};
    Box small, large;
    for (std::size_t first = 0; first < parts.size(); first += LANES) {
        const auto part = [&](int lane) -> GroupPart& { return parts[std::min(first + lane, parts.size() - 1)]; };
        for (int loop = 0; loop < loops; ++loop) {
            small.lanes[loop] = lanes_of([&](int lane) { return part(lane).least[loop]; });
            large.lanes[loop] = lanes_of([&](int lane) { return part(lane).most[loop]; });
        }
        cut_layers(segment_, order.dims, small.lanes, retained, cuts.small.data(), true);
        cut_layers(segment_, order.dims, large.lanes, retained, cuts.large.data(), true);
        for (int loop = 0; loop < loops; ++loop) inner_steps(segment_, loop, cuts);
        Lanes energy, cycles;
        least_of(segment_, layers_, home_, order, parts[0].kept, cuts, energy, cycles);
        for (int lane = 0; lane < LANES; ++lane) part(lane).energy = energy[lane], part(lane).cycles = cycles[lane];
    }
}

GroupBound::GroupBound(const FusedSegment& segment, std::vector<LayerLeast> layers, HomeLevel home,
                       std::vector<LoopOrder> orders, std::vector<std::vector<int>> shared)
    : segment_(segment), layers_(std::move(layers)), home_(home), orders_(std::move(orders)),
      shared_(std::move(shared)) {
    GroupPart all;
    for (std::size_t loop = 0; loop < orders_[0].dims.size(); ++loop) {
        all.least[loop] = 1;
        all.most[loop] = segment.layers.back().bounds[orders_[0].dims[loop]];
    }
    parts_.push_back(all);
    evaluate(parts_);
}

double GroupBound::lower(const Price& price) const {
    double least = NEVER;
    for (const GroupPart& part : parts_) least = std::min(least, price.of(part.energy, part.cycles));
    return least;
}

// Boxes are divided until the steps of each loop are known. Once no loop has many more steps in one of the box's tiles
// than in another, the order is chosen; then whether an intermediate stays along a loop or is made again, where the less
// costly of both costs most; where that costs nothing yet, the box first. False where nothing is left to divide.
bool GroupBound::divide(const GroupPart& part, const Price& price, std::vector<GroupPart>& found) const {
    const LoopOrder& order = orders_[part.order];
    const std::vector<double>& bounds = segment_.layers.back().bounds;
    const std::size_t loops = order.dims.size();
    std::vector<double> most, least;    // steps
    double widest = 1;
    for (std::size_t loop = 0; loop < loops; ++loop) {
        most.push_back(std::ceil(bounds[order.dims[loop]] / part.least[loop]));
        least.push_back(std::ceil(bounds[order.dims[loop]] / part.most[loop]));
        widest = std::max(widest, most[loop] / least[loop]);
    }
    found.clear();
    if (widest < WIDE && order.open) {
        for (std::size_t number = 1; number < orders_.size(); ++number) {
            std::vector<GroupPart> one{part};
            one[0].order = int(number);
            for (std::size_t loop = 0; loop < loops; ++loop) {
                const auto place = std::find(order.dims.begin(), order.dims.end(), orders_[number].dims[loop]);
                one[0].least[loop] = part.least[place - order.dims.begin()];
                one[0].most[loop] = part.most[place - order.dims.begin()];
            }
            evaluate(one);
            found.push_back(std::move(one[0]));
        }
        return true;
    }
    const double bar = widest > 1 ? price.of(part.energy, part.cycles) * (1 + HIGHER) : -1;
    double best = bar;
    for (std::size_t loop = 0; widest < WIDE && loop < loops; ++loop)
        for (std::size_t link = shared_.size(); most[loop] > 1 && link-- > 0;) {
            const std::uint8_t bit = std::uint8_t(1 << loop);
            if (((part.again[link] | part.kept[link]) & bit) ||
                std::find(shared_[link].begin(), shared_[link].end(), order.dims[loop]) == shared_[link].end())
                continue;
            std::vector<GroupPart> made{part}, stays{part};
            made[0].again[link] |= bit;
            evaluate(made);
            // a single step leaves nothing to stay; that case is among those above
            stays[0].kept[link] |= bit;
            stays[0].most[loop] = std::min(stays[0].most[loop], bounds[order.dims[loop]] - 1);
            evaluate(stays);
            const double value = std::min(price.of(made[0].energy, made[0].cycles),
                                          price.of(stays[0].energy, stays[0].cycles));
            if (value > best) {
                best = value;
                found = {std::move(made[0]), std::move(stays[0])};
            }
            break;
        }
    if (best > bar) return true;
    if (widest == 1) return false;
    found.assign(1, part);
    for (std::size_t loop = 0; loop < loops; ++loop) {
        const double ratio = most[loop] / least[loop];
        if (ratio == 1 || ratio * ratio < widest) continue;
        const double steps = std::min(std::max(std::floor(std::sqrt(most[loop] * least[loop])), least[loop]),
                                      most[loop] - 1);
        const double size = std::ceil(bounds[order.dims[loop]] / steps);  // the least tile in at most so many steps
        for (std::size_t index = 0, before = found.size(); index < before; ++index) {
            found.push_back(found[index]);
            found[index].most[loop] = size - 1;
            found.back().least[loop] = size;
        }
    }
    evaluate(found);
    return true;
}

std::size_t GroupBound::refine(const Price& price, double bar, std::size_t most) {
    using Ranked = std::pair<double, std::size_t>;
    std::priority_queue<Ranked, std::vector<Ranked>, std::greater<>> waiting;
    for (std::size_t index = 0; index < parts_.size(); ++index)
        if (const double value = price.of(parts_[index].energy, parts_[index].cycles); value < bar)
            waiting.push({value, index});
    std::size_t made = 0;
    std::vector<GroupPart> found;
    std::vector<std::size_t> gone;
    while (!waiting.empty() && made < most) {
        const std::size_t index = waiting.top().second;
        if (!divide(parts_[index], price, found)) break;
        waiting.pop();
        made += found.size() * segment_.layers.size();
        gone.push_back(index);
        for (GroupPart& part : found) {
            if (part.energy == NEVER) continue;
            std::size_t place = parts_.size();
            if (gone.empty()) {
                parts_.push_back(std::move(part));
            } else {    // in the place of one that was divided
                place = gone.back();
                gone.pop_back();
                parts_[place] = std::move(part);
            }
            if (const double value = price.of(parts_[place].energy, parts_[place].cycles); value < bar)
                waiting.push({value, place});
        }
    }
    std::sort(gone.rbegin(), gone.rend());
    for (std::size_t index : gone) {
        if (index + 1 < parts_.size()) parts_[index] = std::move(parts_.back());
        parts_.pop_back();
    }
    return made;
}

}  // namespace fadiff
