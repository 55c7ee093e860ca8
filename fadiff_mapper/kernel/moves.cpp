#include "moves.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace fadiff {

// Probabilities, set by hand together with the schedule of the annealing:
constexpr double DECISION_ALONE = 0.3;  // a move changes one decision and no factor
constexpr double SECOND_SHIFT = 0.8;    // a move which shifts a divisor shifts a second one too
constexpr double EXCHANGE = 0.5;        // the second shift goes back between the places of the first: they swap divisors
constexpr double DECISION_TOO = 0.1;    // a move which shifts divisors changes a decision as well
constexpr double SECOND_SET = 0.3;      // with residuals: a move which sets a factor anew sets a second one too
constexpr double DIVIDE_TOO = 0.5;      // a division anew is of every further dimension
constexpr double KEPT = 0.7;            // a random mapping keeps a data space where it may

void draw_point(const Layer& layer, const MapSpace& space, int column, Random& random, Point& point) {
    if (space.residual()) throw std::invalid_argument("random mappings have no residuals");
    for (int d = 0; d < space.dims; ++d) {
        Number rest = space.bound[d];
        for (int place = 0; place < space.places; ++place) {
            int count = 0;
            for (Number n = 0; n < space.width; ++n) count += space.can_complete(place, d, rest, n);
            if (!count) throw std::invalid_argument("the map space is empty");
            int wanted = random.below(count);
            Number n = 0;
            while (!space.can_complete(place, d, rest, n) || wanted-- > 0) ++n;
            point.set(space, place, d, n);
            rest = space.quotients(d, rest)[n];
        }
    }
    for (int level = 0; level < layer.levels; ++level) {
        point.put_in_order(space, level, space.orders[level][random.below(int(space.orders[level].size()))]);
        point.lay_out(space, level, space.layouts[level][random.below(int(space.layouts[level].size()))]);
    }
    point.mapping.keep = space.keep;
    for (auto [level, tensor] : space.open) {
        const bool outermost = level == layer.levels - 1;
        point.mapping.keep[std::size_t(level) * layer.tensors + tensor] =
            column == 0 || (column == 1 ? outermost : random.uniform() < KEPT);
    }
}

static bool can_take(const MapSpace& space, int place, int d, Number number) {
    return number >= 0 && space.may(place, d, number);
}

struct Shift {
    int source, target;
};
constexpr Shift ANYWHERE{-1, -1};

// A random item that passes a test, -1 where none does.
template <typename Test>
static int pick(const std::vector<int>& items, Random& random, Test test) {
    std::vector<int>& passing = random.passing;
    passing.resize(items.size());
    int some = 0;
    for (int item : items) {  // without a branch, which could not be predicted
        passing[some] = item;
        some += test(item);
    }
    return some ? passing[random.below(some)] : -1;
}

static void change(const MapSpace& space, Change change, Point& point, Changes& changes) {
    apply(space, change, point);
    changes.push_back(change);
}

// A random one of the loops that have a choice, of several iterations where a point is given, at one place or (negative) any;
// place and dimension, (-1, -1) where there is none.
static std::pair<int, int> pick_loop(const MapSpace& space, const Point* point, int only, Random& random) {
    const int first = only < 0 ? 0 : only, end = only < 0 ? space.places : only + 1;
    const auto loops = [&](int place) { return space.movable[place] & (point ? point->mapping.looping[place] : ~Dims(0)); };
    int count = 0;
    for (int place = first; place < end; ++place) count += __builtin_popcountll(loops(place));
    if (!count) return {-1, -1};
    int wanted = random.below(count), place = first;
    for (int here; wanted >= (here = __builtin_popcountll(loops(place))); ++place) wanted -= here;
    Dims left = loops(place);
    while (wanted--) left &= left - 1;
    return {place, *members(left)};
}

// Shifts one random divisor; where `back` is a shift, between its two places in the opposite direction. `ANYWHERE`: the
// numbers drawn lead to no shift, and nothing is changed.
static Shift shift(const MapSpace& space, Shift back, Random& random, Point& point, Changes& changes) {
    const auto [source, dim] = pick_loop(space, &point, back.target, random);
    if (source < 0) return ANYWHERE;
    const Number giver = point.get(space, source, dim);
    const Numbers parts = space.parts_of(source, dim, giver);
    if (!parts.size()) return ANYWHERE;
    const Number part = parts[random.below(parts.size())];
    const Number* left = space.quotients(dim, giver);
    const Number* larger = space.products(dim, part);
    const auto more = [&, d = dim](int target) { return larger[point.get(space, target, d)]; };
    const int target = back.source >= 0 ? (can_take(space, back.source, dim, more(back.source)) ? back.source : -1)
        : pick(space.growable[dim], random, [&, d = dim, from = source](int p) { return (p != from) & can_take(space, p, d, more(p)); });
    if (target < 0) return ANYWHERE;
    change(space, {Change::FACTOR, target, dim, more(target)}, point, changes);
    change(space, {Change::FACTOR, source, dim, left[part]}, point, changes);
    return {source, target};
}

// Number of the divisor, drawn uniformly, that a place may have of one dimension where another place takes the rest of a
// product; negative where there are none.
static Number draw_share(const MapSpace& space, int place, int other, int d, Number whole, Random& random) {
    const Number* rest = space.quotients(d, whole);
    Number share = -1;
    int count = 0;
    for (Number n = 0; n < space.width; ++n)
        if (can_take(space, other, d, rest[n]) && space.may(place, d, n) && random.below(++count) == 0) share = n;
    return share;
}

// Divides what two places have of one dimension, and perhaps of further ones, anew between them: tiles of unlike shape
// that fill one buffer lie several shifts apart, with worse mappings in between.
static void divide_anew(const MapSpace& space, Random& random, Point& point, Changes& changes) {
    const auto [place, dim] = pick_loop(space, &point, -1, random);
    if (place < 0) return;
    const int other = pick(space.growable[dim], random, [from = place](int p) { return p != from; });
    if (other < 0) return;
    for (const int d : members(point.mapping.looping[place] | point.mapping.looping[other])) {
        if (d != dim && random.uniform() >= DIVIDE_TOO) continue;
        const Number present = point.get(space, place, d), whole = space.products(d, present)[point.get(space, other, d)];
        const Number share = draw_share(space, place, other, d, whole, random);
        if (share < 0 || share == present) continue;
        change(space, {Change::FACTOR, place, d, share}, point, changes);
        change(space, {Change::FACTOR, other, d, space.quotients(d, whole)[share]}, point, changes);
    }
}

// Whether the spatial loops of a level use no more units than its fan-out has, on either axis.
static bool fits(const Layer& layer, const Point& point, int level, const std::uint8_t* on_y) {
    double x = 1, y = 1;
    const double* spatial = point.mapping.spatial(level, layer.dims);
    for (const int d : members(point.mapping.looping[2 * level])) {
        (on_y[d] ? y : x) *= spatial[d];
    }
    return x <= layer.level[level].fanout_x && y <= layer.level[level].fanout_y;
}

void fit_layouts(const Layer& layer, const MapSpace& space, Random& random, Point& point, Changes& changes) {
    for (int level = 0; level < layer.levels; ++level) {
        const int count = int(space.layouts[level].size());
        if (count < 2 || fits(layer, point, level, &point.mapping.on_y[std::size_t(level) * layer.dims])) continue;
        const int start = random.below(count);
        for (int step = 0; step < count; ++step) {
            const int candidate = (start + step) % count;
            if (!fits(layer, point, level, space.layouts[level][candidate].on_y.data())) continue;
            change(space, {Change::LAYOUT, level, 0, candidate}, point, changes);
            break;
        }
    }
}

// Decides one open decision at random; returns whether the mapping differs. Orders are compared over the loops of
// several iterations alone: loops of one iteration may stand anywhere.
static bool decide(const Layer& layer, const MapSpace& space, Random& random, Point& point, Changes& changes) {
    const Decision& decision = space.decisions[random.below(int(space.decisions.size()))];
    const int level = decision.level, dims = space.dims;
    if (decision.kind == Decision::KEEP) {
        const bool kept = point.mapping.keep[std::size_t(level) * layer.tensors + decision.tensor];
        change(space, {Change::KEEP, level, decision.tensor, !kept}, point, changes);
        return true;
    }
    const bool ordered = decision.kind == Decision::ORDER;
    const int candidates = int(ordered ? space.orders[level].size() : space.layouts[level].size());
    const int candidate = random.below(candidates);
    const Layout* layout = ordered ? nullptr : &space.layouts[level][candidate];
    const std::uint8_t* order = ordered ? space.orders[level][candidate].data() : layout->order.data();
    const std::uint8_t* present = &(ordered ? point.mapping.order : point.mapping.spatial_order)[std::size_t(level) * dims];
    const double* factor = ordered ? point.mapping.temporal(level, dims) : point.mapping.spatial(level, dims);
    bool differs = false;
    for (int position = 0, at = 0; position < dims && !differs; ++position) {
        const int d = order[position];
        if (factor[d] <= 1) continue;
        while (factor[present[at]] <= 1) ++at;
        differs = present[at] != d || (layout && point.mapping.on_y[std::size_t(level) * dims + d] != layout->on_y[d]);
        ++at;
    }
    change(space, {ordered ? Change::ORDER : Change::LAYOUT, level, 0, candidate}, point, changes);
    return differs;
}

// Runs that a loop may be divided into by one move with residuals, beyond its present ones: a limit without effect on most
// bounds, set by hand. Then shares of moves in which another loop makes up, and rounds up for it.
constexpr double MOST_RUNS = 24, MADE_UP = 0.75, MADE_UP_IN_FULL = 0.75;

bool cut_off(const MapSpace& space, const Point& from, int dim, const std::vector<double>& factors, Changes& changes) {
    changes.clear();
    double left = space.points[dim];
    for (int place = 0; place < space.places; ++place) {
        const std::size_t at = std::size_t(place) * space.dims + dim;
        const double factor = place == space.places - 1 ? left : std::min(factors[place], left);
        const double last = std::fmod(left - 1, factor) + 1;
        if (factor < space.least[at] || factor > space.most[at]) return false;
        if (factor != from.mapping.factor[at] || last != from.mapping.last[at])
            changes.push_back({Change::FACTOR, place, dim, int(factor), int(last)});
        left = std::ceil(left / factor);
    }
    return !changes.empty();
}

// Sets one random factor anew, and mostly another one of the dimension so that both cover about as much as before.
static void set_anew(const MapSpace& space, Random& random, Point& point, Changes& changes) {
    const auto [place, d] = pick_loop(space, nullptr, -1, random);
    if (place < 0) return;
    std::vector<double> factors = factors_of(space, point, d);
    double left = space.points[d];
    for (int inner = 0; inner < place; ++inner) left = std::ceil(left / factors[inner]);
    const double old = factors[place];
    const double runs = 1 + random.below(int(std::min(left, std::ceil(left / old) + MOST_RUNS)));
    const double choices[] = {std::ceil(left / runs), old + 1, old - 1, space.most[std::size_t(place) * space.dims + d]};
    const double now = factors[place] = limited(space, place, d, choices[random.below(4)]);
    const auto is_other = [own = place](int p) { return p != own; };
    const int other = random.uniform() < MADE_UP ? pick(space.growable[d], random, is_other) : -1;
    if (other >= 0) {
        const double exact = old * factors[other] / now;
        factors[other] = limited(space, other, d, random.uniform() < MADE_UP_IN_FULL ? std::ceil(exact) : std::floor(exact));
    }
    Changes found;
    if (!cut_off(space, point, d, factors, found)) return;
    for (const Change& one : found) change(space, one, point, changes);
}

bool move(const Layer& layer, const MapSpace& space, const Point& from, double resplit_rate, Random& random, Point& point,
          Changes& changes) {
    changes.clear();
    bool changed = false;
    bool decides = !space.decisions.empty();
    if (!decides || random.uniform() >= DECISION_ALONE) {
        if (space.residual()) {
            set_anew(space, random, point, changes);
            if (random.uniform() < SECOND_SET) set_anew(space, random, point, changes);
        } else if (resplit_rate > 0 && random.uniform() < resplit_rate) {
            divide_anew(space, random, point, changes);
        } else {
            const Shift first = shift(space, ANYWHERE, random, point, changes);
            if (first.source >= 0 && random.uniform() < SECOND_SHIFT)
                shift(space, random.uniform() < EXCHANGE ? first : ANYWHERE, random, point, changes);
        }
        for (const Change& factor : changes) {
            const std::size_t at = std::size_t(factor.at) * space.dims + factor.of;
            changed |= point.mapping.factor[at] != from.mapping.factor[at];
        }
        if (changed) fit_layouts(layer, space, random, point, changes);
        decides = decides && random.uniform() < DECISION_TOO;
    }
    if (decides) changed |= decide(layer, space, random, point, changes);
    // Mappings without residuals were searched before, and are walked at the same cost.
    if (space.residual() && point.mapping.factor == point.mapping.last) return false;
    return changed;
}

bool adopt(const Layer& layer, const MapSpace& space, const Point& from, const Point& other, Random& random, Point& point,
           Changes& changes) {
    changes.clear();
    const int d = random.below(space.dims);
    for (int place = 0; place < space.places; ++place) {
        const Change own = factor_in(space, from, place, d), taken = factor_in(space, other, place, d);
        if (taken.to != own.to || taken.last != own.last) change(space, taken, point, changes);
    }
    if (changes.empty()) return false;
    fit_layouts(layer, space, random, point, changes);
    return true;
}

}  // namespace fadiff
