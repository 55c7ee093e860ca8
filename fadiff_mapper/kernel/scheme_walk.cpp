#include "scheme_walk.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace fadiff {

// Calls `visit` with every order of the loops over some dimensions, X before Y, and those on Y (`orders_at` in
// search/mapspace/build.py).
template <typename Visit>
static void each_order(const OpenFanOut& open, Dims loops, Visit visit) {
    const auto looping = [&](const std::vector<std::uint8_t>& dims) {
        std::vector<std::uint8_t> found;
        std::copy_if(dims.begin(), dims.end(), std::back_inserter(found), [&](int d) { return loops >> d & 1; });
        return found;
    };
    const std::vector<std::uint8_t> inner = looping(open.inner), between = looping(open.between), outer = looping(open.outer);
    const int free = int(between.size()), count = int(inner.size()) + free + int(outer.size());
    const bool split = open.split >= 0;
    int least = 0, most = count;  // loops on X: of the free ones where there is a split, else of all
    Dims fixed_on_y = 0;
    if (split) {
        const int on_x = open.between_on_x();
        least = std::max(0, free - (int(open.between.size()) - on_x)), most = std::min(free, on_x);
        for (const auto* part : {&inner, &outer})
            for (const int d : *part)
                if (open.on_y[d] && !open.on_x[d]) fixed_on_y |= Dims(1) << d;
    }
    const auto any = [](const std::vector<std::uint8_t>& dims) { return std::find(dims.begin(), dims.end(), true) != dims.end(); };
    if (!any(open.on_y)) least = split ? free : count;
    if (!any(open.on_x)) most = 0;
    std::vector<std::uint8_t> place(free), order(count);
    std::iota(place.begin(), place.end(), std::uint8_t(0));
    do {
        std::vector<std::uint8_t> whole = inner;
        for (const int at : place) whole.push_back(between[at]);
        whole.insert(whole.end(), outer.begin(), outer.end());
        for (int cut = least; cut <= most; ++cut) {
            Dims on_y = fixed_on_y;
            const auto first = whole.begin() + (split ? int(inner.size()) : 0);
            std::for_each(first + cut, split ? first + free : whole.end(), [&](int d) { on_y |= Dims(1) << d; });
            order = whole;
            std::stable_partition(order.begin(), order.end(), [&](int d) { return !(on_y >> d & 1); });
            visit(order, on_y);
        }
    } while (std::next_permutation(place.begin(), place.end()));
}

static Dims loops_of(const double* factor, std::size_t dims) {
    Dims loops = 0;
    for (std::size_t d = 0; d < dims; ++d)
        if (factor[d] > 1) loops |= Dims(1) << d;
    return loops;
}

// Units along X and Y that spatial loops of a level take.
static std::pair<double, double> extents_of(const double* factor, std::size_t dims, Dims on_y) {
    double x = 1, y = 1;
    for (std::size_t d = 0; d < dims; ++d) (on_y >> d & 1 ? y : x) *= factor[d];
    return {x, y};
}

static bool has_room(const Unit& unit, double x, double y) { return x <= unit.mesh_x && y <= unit.mesh_y && x * y <= unit.instances; }

SchemeWalk::SchemeWalk(std::vector<Unit> units, OpenSchemes open)
    : units_(std::move(units)), open_(std::move(open)), levels_(open_.fan_outs.size() + 1), level_(open_.fan_outs.size() - 1),
      keep_(open_.keeps.size()) {
    const std::size_t dims = open_.bounds.size();
    levels_.back().left = open_.bounds;
    levels_.back().taken = {{1, 1}};
    scheme_.spatial.resize(open_.fan_outs.size() * dims);
    for (std::size_t level = 0; level < open_.fan_outs.size(); ++level) {
        const OpenFanOut& fan_out = open_.fan_outs[level];
        std::vector<std::pair<std::vector<double>, double>> choices{{{}, 1}};  // factors, and their product
        for (const std::vector<double>& factors : fan_out.factors) {
            std::vector<std::pair<std::vector<double>, double>> longer;
            for (const auto& [some, product] : choices)
                for (const double factor : factors)
                    if (product * factor <= units_[level].instances) {
                        longer.push_back({some, product * factor});
                        longer.back().first.push_back(factor);
                    }
            choices = std::move(longer);
        }
        std::map<Dims, std::set<Dims>> sides;  // dimensions on Y, by the dimensions with a loop
        std::vector<Spread>& spreads = spreads_.emplace_back();
        for (const auto& [factor, product] : choices) {
            const Dims loops = loops_of(factor.data(), dims);
            const auto [own, fresh] = sides.try_emplace(loops);
            if (fresh) each_order(fan_out, loops, [&, on = &own->second](const auto&, Dims on_y) { on->insert(on_y); });
            Spread spread{factor, {}};
            for (const Dims on_y : own->second) {
                const auto [x, y] = extents_of(factor.data(), dims, on_y);
                if (has_room(units_[level], x, y)) spread.extents.insert({x, y});
            }
            if (!spread.extents.empty()) spreads.push_back(std::move(spread));
        }
    }
}

// Takes up the next spread of a level within those further out. Whether it fits.
bool SchemeWalk::choose(std::size_t level) {
    const Level& outside = levels_[level + 1];
    Level& own = levels_[level];
    const Spread& spread = spreads_[level][own.spread++];
    const std::size_t dims = spread.factor.size();
    for (std::size_t d = 0; d < dims; ++d)
        if (!divides(spread.factor[d], outside.left[d])) return false;
    own.taken.clear();
    for (const auto& [x, y] : outside.taken)
        for (const auto& [dx, dy] : spread.extents)
            if (has_room(units_[level], x * dx, y * dy)) own.taken.insert({x * dx, y * dy});
    if (own.taken.empty()) return false;
    own.left.resize(dims);
    own.units = outside.units;
    for (std::size_t d = 0; d < dims; ++d) {
        own.left[d] = outside.left[d] / spread.factor[d];
        own.units *= spread.factor[d];
        scheme_.spatial[level * dims + d] = spread.factor[d];
    }
    return true;
}

bool SchemeWalk::reaches_bounds() const {
    for (std::size_t d = 0; d < open_.bounds.size(); ++d)
        if (!std::binary_search(open_.in_time[d].begin(), open_.in_time[d].end(), levels_[0].left[d])) return false;
    return levels_[0].units >= open_.least;
}

const Scheme* SchemeWalk::next() {
    while (keep_ == open_.keeps.size()) {
        if (level_ + 1 == levels_.size()) return nullptr;
        if (levels_[level_].spread == spreads_[level_].size()) levels_[level_++].spread = 0;
        else if (!choose(level_)) continue;
        else if (level_ > 0) --level_;
        else if (reaches_bounds()) keep_ = 0;
    }
    scheme_.keep = open_.keeps[keep_++];
    return &scheme_;
}

std::vector<Layout> SchemeWalk::layouts(const Scheme& scheme) const {
    struct Placed {  // the loops of a level and all further out
        Layout layout;
        double x = 1, y = 1;  // units that they take
    };
    const std::size_t dims = open_.bounds.size();
    std::vector<Placed> begun(1);
    for (std::size_t level = open_.fan_outs.size(); level-- > 0;) {
        const OpenFanOut& open = open_.fan_outs[level];
        const double* factor = &scheme.spatial[level * dims];
        const Dims loops = loops_of(factor, dims);
        std::vector<Placed> own, wider;
        each_order(open, loops, [&](const std::vector<std::uint8_t>& order, Dims looping_on_y) {
            // dimensions of one iteration that may lie on either axis take the places that are left on X, then lie on Y
            int room = open.split < 0 ? int(dims) : open.between_on_x();
            for (const int d : order) room -= open.on_x[d] && open.on_y[d] && !(looping_on_y >> d & 1);
            Placed placed{{order, std::vector<std::uint8_t>(dims)}};
            std::tie(placed.x, placed.y) = extents_of(factor, dims, looping_on_y);
            for (std::size_t d = 0; d < dims; ++d) {
                if (loops >> d & 1) {
                    placed.layout.on_y[d] = looping_on_y >> d & 1;
                    continue;
                }
                placed.layout.order.push_back(std::uint8_t(d));
                placed.layout.on_y[d] = open.on_y[d] && (!open.on_x[d] || --room < 0);
            }
            own.push_back(std::move(placed));
        });
        for (const Placed& outside : begun)
            for (const Placed& inside : own)
                if (has_room(units_[level], outside.x * inside.x, outside.y * inside.y)) {
                    Placed both = inside;
                    both.x *= outside.x, both.y *= outside.y;
                    both.layout.order.insert(both.layout.order.end(), outside.layout.order.begin(), outside.layout.order.end());
                    both.layout.on_y.insert(both.layout.on_y.end(), outside.layout.on_y.begin(), outside.layout.on_y.end());
                    wider.push_back(std::move(both));
                }
        begun = std::move(wider);
    }
    std::vector<Layout> found;
    for (Placed& placed : begun) found.push_back(std::move(placed.layout));
    return found;
}

}  // namespace fadiff
