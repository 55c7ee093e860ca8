#include <algorithm>
#include <cmath>
#include <map>

#include "sparse.hpp"

namespace fadiff::sparse {

namespace {

struct Option {
    int level = -1, target = -1;
    double probability = 0, worth = 0;
};

// The part of the iterations during which a tile of the target stays where it is; see model/sparse_savings.py.
struct LeaderWindow {
    NestLoop loop;                    // its iterations bring new words of the target
    bool scalar = false;              // a single iteration, as at the innermost level
    const double* target = nullptr;   // [D]; points of the target's tile
    double leader[MOST_DIMS];         // [D]; points over which a leader is looked at
    const NestLoop* loops[MOST_LOOPS];       // the target loop, and those outside it that widen the part looked at
    int count = 0;
};

// The loops and tiles of the mapping in one lane.
class MappedLane {
protected:
    MappedLane(const SparseDesign& design, const MappingPack& pack, const SparseTiles& tiles, int lane, Met& met)
        : design_(design), layer_(design.layer), pack_(pack), mapped_(tiles.mapped[lane]), nest_(mapped_.nest), lane_(lane), met_(met) {}

    const StoredTile& tile(int level, int t) const { return mapped_.tiles[std::size_t(level) * layer_.tensors + t]; }
    bool moves(int t, const NestLoop& loop) const { return layer_.spaces[t].relevant >> loop.dim & 1; }
    // The first level from `level` outwards that keeps a data space; L where none does.
    int source(int t, int level) const {
        while (level < layer_.levels && !tile(level, t).kept) ++level;
        return level;
    }

    const SparseDesign& design_;
    const Layer& layer_;
    const MappingPack& pack_;
    const MappedTiles& mapped_;
    const Nest& nest_;
    int lane_;
    Met& met_;
};

class AccessOptions : MappedLane {
public:
    AccessOptions(const SparseDesign& design, const MappingPack& pack, const SparseTiles& tiles, int lane, Met& met)
        : MappedLane(design, pack, tiles, lane, met), occupancies_(tiles.occupancies) {}

    // False where the target is stored nowhere at the level or further out, or Timeloop ends on a leader's tile.
    bool effect(const ConditionedAccess& access, int level, Option& option) {
        const auto& [target, leaders] = access;
        const int stored = source(target, level);
        if (stored == layer_.levels) return false;
        find_window(stored, target);
        double effectual = 1.0;
        for (int leader : leaders) {
            double points[MOST_DIMS];
            if (!leader_points(stored, target, leader, points)) continue;
            const double empty = empty_share(design_, leader, box_of(design_, leader, points), met_);
            if (empty < 0) return false;
            effectual *= 1 - empty;
        }
        option = {stored, target, 1 - effectual, 0};
        option.worth = worth(option);
        return true;
    }

private:
    double block(int level, int t) const { return design_.block[std::size_t(level) * layer_.tensors + t]; }

    // pJ per tile that an option saves: data, and the metadata that goes inwards, in words of data.
    double worth(const Option& option) const {
        const SparseLevel& hardware = design_.levels[option.level];
        const int child = tile(option.level, option.target).child, inner = child < 0 ? option.level : child;
        const double ratio = std::floor(hardware.metadata_word_bits / hardware.word_bits);  // of whole numbers in Timeloop
        const double words = occupancies_[std::size_t(option.level) * layer_.tensors + option.target].nonzeros[lane_]
            + occupancies_[std::size_t(inner) * layer_.tensors + option.target].metadata_units[lane_] * ratio;
        return layer_.level[option.level].read / block(option.level, option.target) * words * option.probability;
    }

    // The loop whose iterations bring new words.
    NestLoop target_loop(int source, int child, int target) const {
        for (int i = nest_.first[child + 1]; i < nest_.first[source + 1]; ++i) {
            const NestLoop& loop = nest_.loops[i];
            if (child < 0 && (i == nest_.first[1] || !loop.spatial)) break;
            if (moves(target, loop)) return loop;
        }
        return child < 0 ? innermost_loop() : outermost_loop(source);
    }

    // The outermost spatial loop of the innermost level, or its innermost temporal loop if there is no fan-out.
    NestLoop innermost_loop() const {
        const std::uint8_t first = pack_.order[lane_];
        NestLoop loop{pack_.temporal(0, layer_.dims)[first][lane_], 0, first, false, false};
        each_loop(layer_, pack_, lane_, 0, ~Dims(0), 0, [&](NestLoop own) {
            own.row = loop.row + (own.bound != 1);
            loop = own;
        });
        if (!loop.spatial) loop.row += loop.bound != 1;
        return loop;
    }

    NestLoop outermost_loop(int level) const {
        const int dims = layer_.dims, d = pack_.order[(std::size_t(level + 1) * dims - 1) * LANES + lane_];
        return {pack_.temporal(level, dims)[d][lane_], nest_.row_of(level), std::uint8_t(d), false, false};
    }

    void find_window(int source, int target) {
        const int child = tile(source, target).child;
        const NestLoop loop = target_loop(source, child, target);
        window_.scalar = child < 0 && !loop.spatial;
        window_.loop = loop;
        window_.target = nest_.box(window_.scalar ? 0 : loop.row);
        copy_points(window_.target, nest_.width, window_.leader);
        window_.loops[0] = &window_.loop;
        window_.count = 1;
        bool stays = loop.spatial;
        for (int i = loop.row; i < nest_.first[source + 1]; ++i) {
            const NestLoop& outer = nest_.loops[i];
            const bool brings = child < 0 || moves(target, outer);
            if (outer.spatial || (stays && !brings)) {
                window_.leader[outer.dim] *= outer.bound;
                window_.loops[window_.count++] = &outer;
            }
            if (stays && !outer.spatial && brings) stays = false;
        }
    }

    // The points over which one leader is looked at; false where the option is without effect for it.
    bool leader_points(int source, int target, int leader, double* points) const {
        double factors[MOST_DIMS];
        Dims together_dims = 0;
        double together = 1.0;
        for (int i = 0; i < window_.count && !window_.scalar; ++i) {
            const NestLoop& loop = *window_.loops[i];
            if (window_.loop.spatial && together_dims && moves(leader, loop)) return false;
            if (!moves(target, loop) || !moves(leader, loop)) continue;
            const Dims dim = Dims(1) << loop.dim;
            factors[loop.dim] = (together_dims & dim ? factors[loop.dim] : 1.0) * loop.bound;
            together_dims |= dim;
            together *= loop.bound;
        }
        copy_points(window_.leader, nest_.width, points);
        const double words = box_of(design_, target, window_.target).words;
        double scaling = std::ceil(block(source, target) / (words / together));
        for (const int d : members(together_dims)) {
            points[d] = std::ceil(points[d] / (factors[d] / scaling));
            scaling = scaling / factors[d];
        }
        if (scaling > 1) points[window_.loop.dim] = std::trunc(points[window_.loop.dim] * scaling);
        return true;
    }

    const std::vector<Occupancies>& occupancies_;
    LeaderWindow window_;
};

// The instances of all units for one data space of one mapping, while savings are worked in. Units: 0 is the arithmetic,
// l + 1 storage level l; skipping at level l saves instances of unit l, the next one inwards. See sparse_usage of model/sparse_savings.py.
class UnitInstances : MappedLane {
public:
    UnitInstances(const SparseDesign& design, const Workspace& dense, const SparseTiles& tiles, int lane, int tensor, Met& met)
        : MappedLane(design, dense.pack, tiles, lane, met), tensor_(tensor) {
        for (int unit = 0; unit <= layer_.levels; ++unit) {
            most[unit][0] = before_[unit][0] = dense.tiles.used_x[unit][lane];
            most[unit][1] = before_[unit][1] = dense.tiles.used_y[unit][lane];
            share[unit] = 1;
        }
    }

    // Instances that get no tile because the level outside knows that it would be empty.
    void leave_out_empty_tiles() {
        bool reduced[MOST_LEVELS + 1] = {};
        for (int unit = 0; unit < layer_.levels; ++unit) {
            if (!in_format(tensor_, unit)) continue;
            bool innermost = true;
            for (int i = nest_.first[unit]; i < nest_.first[unit + 1]; ++i) {
                const NestLoop& loop = nest_.loops[i];
                if (!loop.spatial || !moves(tensor_, loop)) continue;
                const double* points = nest_.box(loop.row - 1);
                if (innermost) share[unit] = 1 - empty(tensor_, points);
                innermost = false;
                shrink(unit, loop, tensor_, points);
            }
            reduced[unit] = share[unit] != 1;
        }
        hand_inwards(reduced, false);
    }

    // Instances of unit `level` that are skipped where leaders are empty. Timeloop numbers the loops on from one leader to
    // the next, so that a later one is looked at over the whole tile of the level.
    void skip(int level, const std::vector<int>& leaders) {
        std::map<int, double> shares;
        int walked = 0;
        for (int leader : leaders) {
            if (!in_format(leader, level)) continue;
            bool first = true;
            int row = nest_.row_of(level - 1);
            each_loop(layer_, pack_, lane_, level, ~Dims(0), 0, [&](NestLoop loop) {
                row += loop.bound != 1;
                loop.row = row;
                if (loop.bound != 1 && moves(leader, loop)) {
                    if (walked > 1 || (walked && !first)) throw Aborted("Timeloop reads beyond its tables");
                    double points[MOST_DIMS];
                    copy_points(nest_.box(walked ? nest_.row_of(level) : loop.row - 1), nest_.width, points);
                    widen_while_stationary(level, loop, leader, points);
                    if (!shares.count(leader)) shares[leader] = 1 - empty(leader, points);
                    shrink(level, loop, leader, points);
                }
                first = false;
            });
            ++walked;
        }
        skipping[level] = true;
        share[level] = 1;
        for (const auto& own : shares) share[level] *= own.second;
    }

    // Savings of outer units reach inner ones, in the average only up to the next unit that is marked.
    void hand_inwards(const bool* marks, bool settled) {
        for (int unit = layer_.levels; unit > 0; --unit) {
            const double was[2] = {before_[unit][0], before_[unit][1]};
            if (was[0] == 0 || was[1] == 0) throw Aborted("no instance of a level gets a tile with nonzeros");
            if (most[unit][0] / was[0] == 1 && most[unit][1] / was[1] == 1) continue;
            if (!settled) std::copy_n(most[unit], 2, before_[unit]);
            bool marked = false;
            for (int inner = unit - 1; inner >= 0; --inner) {
                for (int axis : {0, 1}) most[inner][axis] = std::trunc(most[inner][axis] * (most[unit][axis] / was[axis]));
                marked |= marks[inner];
                if (!marked) share[inner] *= share[unit];
            }
        }
    }

    // Whether every fan-out has room for the instances that are left.
    bool fits() const {
        for (int unit = 0; unit < layer_.levels; ++unit)
            for (int axis : {0, 1}) {
                const double outer = most[unit + 1][axis];
                if (outer == 0) throw Aborted("Timeloop divides by the instances of a level of which none is left");
                if (std::floor(most[unit][axis] / outer) > (axis ? layer_.level[unit].fanout_y : layer_.level[unit].fanout_x)) return false;
            }
        return true;
    }

    double most[MOST_LEVELS + 1][2];  // along X and Y; whole numbers are cut off at each step
    double share[MOST_LEVELS + 1];    // in use on average
    bool skipping[MOST_LEVELS + 1] = {};

private:
    // Whether the level that sends tiles of a data space to a unit stores them in a format.
    bool in_format(int t, int unit) const {
        const int level = source(t, unit);
        return level < layer_.levels && tile(level, t).format;
    }
    double empty(int t, const double* points) const {
        const double found = empty_share(design_, t, box_of(design_, t, points), met_);
        if (found < 0) throw Aborted("Timeloop ends on the tile of an instance");
        return found;
    }
    // Leaves the most instances of a spatial loop that get a tile with a nonzero.
    void shrink(int unit, const NestLoop& loop, int t, const double* points) {
        double fiber[MOST_DIMS];
        copy_points(points, nest_.width, fiber);
        fiber[loop.dim] *= loop.bound;
        const double elements = design_.models[t].most_elements(box_of(design_, t, fiber), box_of(design_, t, points));
        double& left = most[unit][loop.on_y];
        left = std::trunc(left * (elements / loop.bound));
    }
    // Widens the points of an instance by the temporal loops during which its tile of the target stays.
    void widen_while_stationary(int level, const NestLoop& loop, int leader, double* points) const {
        bool child = false;
        for (int inner = 0; inner < level; ++inner) child |= tile(inner, tensor_).kept;
        if (!child || !moves(tensor_, loop) || !moves(leader, loop)) return;
        const int end = nest_.first[std::min(source(tensor_, level), layer_.levels - 1) + 1];
        for (int i = nest_.first[level]; i < end; ++i) {
            const NestLoop& outer = nest_.loops[i];
            if (outer.spatial) continue;
            if (moves(tensor_, outer)) break;
            points[outer.dim] *= outer.bound;
        }
    }

    int tensor_;
    double before_[MOST_LEVELS + 1][2];  // instances that the share left is taken of
};

// Skips the instances of one mapping; false where a fan-out is too small, or accesses and instances would be saved at once.
bool skip_instances(const SparseDesign& design, const Workspace& dense, int lane, SparseTiles& tiles, Met& met) {
    const Layer& layer = design.layer;
    std::vector<UnitInstances> spaces;
    for (int t = 0; t < layer.tensors; ++t) {
        spaces.emplace_back(design, dense, tiles, lane, t, met);
        spaces.back().leave_out_empty_tiles();
    }
    for (int level = 0; level < layer.levels; ++level)
        for (const Choice& choice : design.levels[level].spatial_skipping) {
            const auto& [target, leaders] = choice[0];
            spaces[target].skip(level, leaders);
        }
    for (int t = 0; t < layer.tensors; ++t) {
        UnitInstances& own = spaces[t];
        own.hand_inwards(own.skipping, true);
        if (!own.fits()) return false;
        for (int unit = 0; unit <= layer.levels; ++unit) {
            Instances& use = tiles.instances[std::size_t(unit) * layer.tensors + t];
            const double spanned = dense.tiles.used_x[unit][lane] * dense.tiles.used_y[unit][lane];
            use.x.set(lane, own.most[unit][0]), use.y.set(lane, own.most[unit][1]);
            use.average.set(lane, spanned * own.share[unit]);
        }
        for (int level = 0; level < layer.levels; ++level) {
            if (!own.skipping[level]) continue;
            Savings& savings = tiles.savings[std::size_t(level) * layer.tensors + t];
            if ((savings.lanes >> lane & 1) && savings.probability[lane] != 0) return false;
            savings.spatial = true;
            savings.lanes |= 1u << lane;
            savings.probability.set(lane, 1 - own.share[level]);
        }
    }
    return true;
}

}  // namespace

bool find_savings(const SparseDesign& design, const MappingPack& pack, SparseTiles& tiles, int lane, Met& met) {
    const int levels = design.layer.levels, tensors = design.layer.tensors;
    const unsigned own = 1u << lane;
    AccessOptions options(design, pack, tiles, lane, met);
    for (Happening kind : {GATED, SKIPPED})
        for (int level = 0; level < levels; ++level)
            for (const Choice& choice : kind == GATED ? design.levels[level].gating : design.levels[level].skipping) {
                Option best, option;
                for (const ConditionedAccess& access : choice) {
                    if (!options.effect(access, level, option)) return false;
                    if (option.worth >= (best.level < 0 ? 0 : best.worth) || best.level < 0) best = option;
                }
                Savings& saving = tiles.savings[std::size_t(best.level) * tensors + best.target];
                if ((saving.lanes & own) && !(saving.probability[lane] < best.probability)) continue;
                saving.lanes |= own;
                saving.gated = kind == GATED ? saving.gated | own : saving.gated & ~own;
                saving.probability.set(lane, best.probability);
            }
    return true;
}

unsigned find_instances(const SparseDesign& design, const Workspace& dense, unsigned lanes, SparseTiles& tiles, Met& met) {
    if (!lanes) return 0;
    const Layer& layer = design.layer;
    const int tensors = layer.tensors;
    for (int unit = 0; unit <= layer.levels; ++unit)
        for (int t = 0; t < tensors; ++t) {
            const Lanes x = dense.tiles.used_x[unit], y = dense.tiles.used_y[unit];
            const std::size_t own = std::size_t(unit) * tensors + t;
            const Lanes share = unit ? select(dense.pack.keep[own - tensors], tiles.occupancies[own - tensors].used, 1.0) : Lanes(1.0);
            tiles.instances[own] = {x, y, x * y * share};
        }
    for (const int lane : members(design.skips_instances ? lanes : 0)) {
        try {
            if (!skip_instances(design, dense, lane, tiles, met)) lanes &= ~(1u << lane);
        } catch (const Aborted&) {
            lanes &= ~(1u << lane);
        }
    }
    Mask enough = mask_from(lanes);
    for (int unit = 0; unit <= layer.levels; ++unit) {
        Lanes x = 0.0, y = 0.0;
        for (int t = 0; t < tensors; ++t) {
            const Instances& own = tiles.instances[std::size_t(unit) * tensors + t];
            x = larger(x, own.x), y = larger(y, own.y);
        }
        const Unit& there = layer.units[unit];
        enough = enough & !((unit ? tiles.units(unit, tensors) : x * y) > there.instances) & !(x > there.mesh_x) & !(y > there.mesh_y);
    }
    return (enough & (tiles.units(0, tensors) >= 1.0)).bits();
}

}  // namespace fadiff::sparse
