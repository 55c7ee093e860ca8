#include "sparse_savings.hpp"

#include <algorithm>
#include <cmath>

namespace fadiff::sparse {

namespace {

struct Option {
    int level = -1, target = -1;
    double probability = 0, worth = 0;
};

// The part of the iterations during which a tile of the target stays where it is; see sparse/read_savings.py.
struct LeaderWindow {
    NestLoop loop;                    // its iterations bring new words of the target
    bool scalar = false;              // a single iteration, as at the innermost level
    const double* target = nullptr;   // [D]; points of the target's tile
    double leader[MOST_DIMS];         // [D]; points over which a leader is looked at
    const NestLoop* loops[MOST_LOOPS];       // the target loop, and those outside it that widen the part looked at
    int count = 0;
};

class Searcher {
public:
    Searcher(const SparseDesign& design, const MappingPack& pack, const MappedTiles& mapped,
             const std::vector<Occupancies>& occupancies, int lane, Met& met)
        : design_(design), layer_(design.layer), pack_(pack), mapped_(mapped), nest_(mapped.nest),
          occupancies_(occupancies), lane_(lane), met_(met) {}

    // False where the target is stored nowhere at the level or further out, or Timeloop ends on a leader's tile.
    bool effect(const ConditionedAccess& access, int level, Option& option) {
        int source = level;
        while (source < layer_.levels && !tile(source, access.target).kept) ++source;
        if (source == layer_.levels) return false;
        find_window(source, access.target);
        double effectual = 1.0;
        for (int leader : access.leaders) {
            double points[MOST_DIMS];
            if (!leader_points(source, access.target, leader, points)) continue;
            const double empty = empty_share(design_, leader, box_of(design_, leader, points), met_);
            if (empty < 0) return false;
            effectual *= 1 - empty;
        }
        option = {source, access.target, 1 - effectual, 0};
        option.worth = worth(option);
        return true;
    }

private:
    const StoredTile& tile(int level, int t) const { return mapped_.tiles[std::size_t(level) * layer_.tensors + t]; }
    bool moves(int t, const NestLoop& loop) const { return layer_.spaces[t].relevant >> loop.dim & 1; }

    // pJ per tile that an option saves: data, and the metadata that goes inwards, in words of data.
    double worth(const Option& option) const {
        const SparseLevel& hardware = design_.levels[option.level];
        const int child = tile(option.level, option.target).child, inner = child < 0 ? option.level : child;
        const double ratio = std::floor(hardware.metadata_word_bits / hardware.word_bits);  // of whole numbers in Timeloop
        const double words = occupancies_[std::size_t(option.level) * layer_.tensors + option.target].nonzeros[lane_]
            + occupancies_[std::size_t(inner) * layer_.tensors + option.target].metadata_units[lane_] * ratio;
        return layer_.read[option.level] / layer_.block[option.level] * words * option.probability;
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
        NestLoop loop{pack_.temporal(0, layer_.dims)[first][lane_], 0, first, false};
        each_loop(layer_, pack_, lane_, 0, ~Dims(0), 0, [&](int d, double bound, bool spatial) {
            loop = {bound, loop.row + (bound != 1), std::uint8_t(d), spatial};
        });
        if (!loop.spatial) loop.row += loop.bound != 1;
        return loop;
    }

    NestLoop outermost_loop(int level) const {
        const int dims = layer_.dims, d = pack_.order[(std::size_t(level + 1) * dims - 1) * LANES + lane_];
        return {pack_.temporal(level, dims)[d][lane_], nest_.row_of(level), std::uint8_t(d), false};
    }

    void find_window(int source, int target) {
        const int child = tile(source, target).child;
        const NestLoop loop = target_loop(source, child, target);
        window_.scalar = child < 0 && !loop.spatial;
        window_.loop = loop;
        window_.target = nest_.box(window_.scalar ? 0 : loop.row);
        copy_box(window_.target, nest_.width, window_.leader);
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
        copy_box(window_.leader, nest_.width, points);
        const double words = words_of(layer_.spaces[target], window_.target);
        double scaling = std::ceil(layer_.block[source] / (words / together));
        for (Dims left = together_dims; left; left &= left - 1) {
            const int d = __builtin_ctzll(left);
            points[d] = std::ceil(points[d] / (factors[d] / scaling));
            scaling = scaling / factors[d];
        }
        if (scaling > 1) points[window_.loop.dim] = std::trunc(points[window_.loop.dim] * scaling);
        return true;
    }

    const SparseDesign& design_;
    const Layer& layer_;
    const MappingPack& pack_;
    const MappedTiles& mapped_;
    const Nest& nest_;
    const std::vector<Occupancies>& occupancies_;
    int lane_;
    Met& met_;
    LeaderWindow window_;
};

}  // namespace

bool find_savings(const SparseDesign& design, const MappingPack& pack, const MappedTiles& mapped,
                  const std::vector<Occupancies>& occupancies, int lane, Met& met, std::vector<Savings>& savings) {
    const int levels = design.layer.levels, tensors = design.layer.tensors;
    const unsigned own = 1u << lane;
    Searcher searcher(design, pack, mapped, occupancies, lane, met);
    for (Happening kind : {GATED, SKIPPED})
        for (int level = 0; level < levels; ++level)
            for (const Choice& choice : kind == GATED ? design.levels[level].gating : design.levels[level].skipping) {
                Option best, option;
                for (const ConditionedAccess& access : choice) {
                    if (!searcher.effect(access, level, option)) return false;
                    if (option.worth >= (best.level < 0 ? 0 : best.worth) || best.level < 0) best = option;
                }
                Savings& saving = savings[std::size_t(best.level) * tensors + best.target];
                if ((saving.lanes & own) && !(saving.probability[lane] < best.probability)) continue;
                saving.lanes |= own;
                saving.gated = kind == GATED ? saving.gated | own : saving.gated & ~own;
                saving.probability.set(lane, best.probability);
            }
    return true;
}

}  // namespace fadiff::sparse
