#include "nest_estimate.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "loop_cuts.hpp"

namespace fadiff {

static const double NEVER = std::numeric_limits<double>::infinity();

// Residency choices up to which the full product is priced: a limit of time, set by hand.
static const double MOST_COMBINATIONS = 48;

// Tile sizes of one choice that are priced with refetches: a limit of time, set by hand.
static const std::size_t CLOSER = 64;

// The part by which words must be fewer to count as saved: a guard against rounding.
static const double LESS = 1e-9;

class NestEstimate::Packs {
public:
    Packs(const NestEstimate& nest, std::size_t count)
        : loops(int(nest.options_.dims.size())), nest_(nest), count_(count), layers_(nest.segment_.layers.size()),
          cuts_(new LoopCut[count * layers_ * loops]) {}

    // Takes up as many packs as there is room for, from one on.
    void take(std::size_t from) {
        begin = from, end = from + count_;
        for (std::size_t pack = begin; pack < end; ++pack)
            cut(nest_.segment_, nest_.options_, nest_.sizes_, nest_.padded_, pack * LANES,
                cuts_.get() + (pack - begin) * layers_ * loops);
    }

    // Cuts of all layers by the tile sizes from a column on, [layer][loop].
    static void cut(const FusedSegment& segment, const NestOptions& options, const PerSize& sizes, std::size_t padded,
                    std::size_t column, LoopCut* cuts) {
        Box own;
        for (std::size_t loop = 0; loop < options.dims.size(); ++loop)
            own.lanes[loop] = load(&sizes[loop * padded + column]);
        cut_layers(segment, options.dims, own.lanes, options.retained, cuts);
    }

    // Energy and cycles of a layer or a group in eight tile sizes, and words of operands that lie there all the time.
    struct Cost {
        Lanes energy, cycles, words;

        void operator+=(const Cost& other) {
            energy += other.energy, cycles += other.cycles, words += other.words;
        }
    };

    // Those of one layer in a choice, from a column on; without `refetch` every passing operand comes in once per step.
    static Cost cost(const NestEstimate& nest, const std::vector<int>& pick, std::size_t index, std::size_t column,
                     const Refetch* refetch = nullptr);

    // Cuts of one layer, [loop].
    const LoopCut* of(std::size_t pack, std::size_t layer) const {
        return cuts_.get() + ((pack - begin) * layers_ + layer) * loops;
    }

    const int loops;
    std::size_t begin = 0, end = 0;

private:
    const NestEstimate& nest_;
    const std::size_t count_, layers_;
    const std::unique_ptr<LoopCut[]> cuts_;     // no vector, which would clear them: that takes as long as an estimate
};

// `sizes`, [rows][B], with the last column of each row repeated.
static PerSize filled_up(const std::vector<double>& sizes, std::size_t rows, std::size_t batch, std::size_t padded) {
    PerSize filled(rows * padded);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t column = 0; column < padded; ++column)
            filled[row * padded + column] = sizes[row * batch + std::min(column, batch - 1)];
    return filled;
}

NestEstimate::NestEstimate(const FusedSegment& segment, NestOptions options, const std::vector<double>& sizes,
                           std::size_t batch, const Price& price, double limit)
    : segment_(segment), options_(std::move(options)), batch_(batch), padded_((batch + LANES - 1) / LANES * LANES),
      sizes_(filled_up(sizes, options_.dims.size(), batch_, padded_)), work_(segment.layers.size(), Work(padded_)),
      least_room_(padded_) {
    const std::size_t count = padded_ / LANES;
    Packs one(*this, 1);
    bool hopeful = batch_ && limit == NEVER;
    for (std::size_t pack = 0; pack < count; ++pack) {
        one.take(pack);
        lay_out(one, pack);
        if (!any(load(&least_room_[pack * LANES]) > 0)) continue;   // nothing fits
        for (int index = 0; index < int(segment.layers.size()); ++index) lay_out_work(one, pack, index);
        hopeful = hopeful || may_undercut(one, pack, price, limit);
    }
    if (!hopeful) return;
    Packs all(*this, count);
    all.take(0);
    list_residencies(all);
    list_choices();
}

// Room of every layer in one pack of tile sizes.
void NestEstimate::lay_out(const Packs& packs, std::size_t pack) {
    const int layers = int(segment_.layers.size()), loops = packs.loops;
    const std::size_t first = pack * LANES;
    std::vector<Lanes> beyond(layers - 1);  // words of an intermediate in use beyond those that outlast a step
    Lanes resting = 0;                      // words that outlast a step, of all intermediates
    for (int link = 0; link + 1 < layers; ++link) {
        const FusedLayer& layer = segment_.layers[link];
        const LoopCut* own = packs.of(pack, link);
        const Lanes rest = outlasting(layer, own, loops, options_.retained[link], segment_.links[link]);
        beyond[link] = held(layer, layer.output, own, loops, options_.retained[link], &segment_.links[link]) - rest;
        resting += rest;
    }
    const FusedLayer& last = segment_.layers.back();
    Lanes going_on = 0;                     // sums that stay where they are added up
    Box tile;
    Loops64 adding = 0;
    for (int loop = 0; loop < loops; ++loop)
        if (!last.moves(last.output, options_.dims[loop])) adding |= Loops64(1) << loop;
    if (adding && options_.sums == SumsRest::Inside) {
        largest_tile(last, packs.of(pack, layers - 1), loops, tile.lanes);
        going_on = volume(last.spaces[last.output], tile.lanes);
    } else if (adding && options_.sums == SumsRest::Home) {
        resting += held(last, last.output, packs.of(pack, layers - 1), loops, adding);
    }
    Lanes least = NEVER;
    for (int index = 0; index < layers; ++index) {
        const FusedLayer& layer = segment_.layers[index];
        Lanes room = options_.usable - resting;
        for (int link = 0; link <= index && link + 1 < layers; ++link)
            if (segment_.reader(link) >= index) room = room - beyond[link];
        // Its tile lies beside what it is pooled from, or scaled with.
        if (layer.linked >= 0 && segment_.links[index - 1].beside) {
            largest_tile(layer, packs.of(pack, index), loops, tile.lanes);
            room = room - volume(layer.spaces[layer.linked], tile.lanes);
        }
        // Sums of the last layer that go on stay there while the other layers run, and must fit at once.
        if (index + 1 == layers) room = select(going_on > layer.sums_room, -NEVER, room);
        store(index + 1 < layers ? layer.sums_room - going_on : layer.sums_room, &work_[index].sums[first]);
        store(room, &work_[index].room[first]);
        least = smaller(least, room);
    }
    store(least, &least_room_[first]);
}

// Cycles of a layer's work once over, as the mapping does it whose lanes its tiles fill best.
static Lanes compute_cycles(const FusedLayer& layer, const LoopCut* cuts, int loops) {
    std::size_t points[64][LANES];  // of each loop
    for (int loop = 0; loop < loops; ++loop) {
        if (cuts[loop].dim < 0) continue;
        const Lanes usual = smaller(larger(cuts[loop].usual(), 0), layer.bounds[cuts[loop].dim]);
        for (int lane = 0; lane < LANES; ++lane) points[loop][lane] = std::size_t(usual[lane]);
    }
    Lanes least = NEVER;
    for (const SideBySide& known : layer.known) {
        Lanes part = 1;
        for (int dim = 0; dim < layer.dims(); ++dim) {
            if (!known.busy[dim]) continue;
            const BusyLanes& busy = *known.busy[dim];
            int cutting = -1;
            for (int loop = 0; loop < loops; ++loop)
                if (cuts[loop].dim == dim) cutting = loop;
            part *= cutting < 0 ? Lanes(busy.of(std::size_t(layer.bounds[dim])))
                : lanes_of([&](int lane) { return busy.of(points[cutting][lane]); });
        }
        least = smaller(least, known.compute / part);
    }
    return least;
}

void NestEstimate::lay_out_work(const Packs& packs, std::size_t pack, int index) {
    const FusedLayer& layer = segment_.layers[index];
    const LoopCut* own = packs.of(pack, index);
    const int loops = packs.loops;
    const bool last = index + 1 == int(segment_.layers.size());
    const double made = volume(layer.spaces[layer.output], layer.bounds.data());
    double passed_on = 0;
    Lanes rounds = 1, again = 0, joined = 0;
    for (int loop = 0; loop < loops; ++loop)
        // Sums that rest further out are written once per step along the loops that add to them, and read again but the
        // first time.
        if (last && options_.sums != SumsRest::Inside && !layer.moves(layer.output, own[loop].dim)) rounds *= own[loop].steps;
    const double* alone = layer.home_reads.data() + std::size_t(options_.home) * layer.spaces.size();
    for (int t = 0; t < int(layer.spaces.size()); ++t)
        if (layer.handed >> t & 1) again += larger(fetched(layer, t, own, loops, 0) - alone[t], 0);
    if (layer.linked >= 0) {
        const FusedLink& before = segment_.links[index - 1];
        if (before.written_pooled) passed_on = volume(layer.spaces[layer.linked], layer.bounds.data());
        if (before.elsewhere > 0)
            joined = before.elsewhere
                * fetched(layer, layer.linked, own, loops, before.beside ? 0 : options_.retained[index - 1]);
    }
    const Lanes times = computed(layer, own, loops);
    const bool handed = last || segment_.links[index].written_whole;
    const std::size_t first = pack * LANES;
    Work& work = work_[index];
    store(times * compute_cycles(layer, own, loops), &work.compute[first]);
    const Lanes back = made * (rounds - 1);     // sums that come back
    const bool far = options_.sums == SumsRest::Outermost;
    if (!far) again += 2 * back;
    const Lanes reads = (far ? back : Lanes(0)) + joined;
    const Lanes writes = (handed ? made + (far ? back : Lanes(0)) : Lanes(0)) + passed_on;
    store(reads + writes, &work.words[first]);
    store(layer.inside * times + reads * layer.read + writes * layer.write
              + (again + (last ? 0 : made) + passed_on) * layer.home_price[options_.home], &work.energy[first]);
}

// Tells `found` the loops along which an operand may stay: more and more of those whose steps share words of it, the
// innermost first.
template <typename Found>
static void stay_along(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Found found) {
    Loops64 across = 0;
    for (int loop = loops - 1; loop >= 0; --loop) {
        const int dim = cuts[loop].dim;
        if (dim >= 0 && layer.moves(tensor, dim) && layer.rank_of(tensor, dim).terms.size() < 2) continue;
        found(across |= Loops64(1) << loop);
    }
}

// Whether a choice may have a price below a limit in one pack of tile sizes: every operand comes in as seldom as any of
// its residencies allows. Operations are those of `cost` in the same order, so that rounding raises no price above that
// of a choice.
bool NestEstimate::may_undercut(const Packs& packs, std::size_t pack, const Price& price, double limit) const {
    const std::size_t first = pack * LANES;
    Packs::Cost group;
    for (int index = 0; index < int(segment_.layers.size()); ++index) {
        const FusedLayer& layer = segment_.layers[index];
        const LoopCut* own = packs.of(pack, index);
        const Work& work = work_[index];
        Lanes reads = 0;
        for (int t = 0; t < int(layer.spaces.size()); ++t) {
            if (layer.spaces[t].written || layer.handed >> t & 1) continue;
            if (shared_with(index, t) != segment_.shared.end()) continue;   // may be there already
            Lanes least = fetched(layer, t, own, packs.loops, 0);
            stay_along(layer, t, own, packs.loops, [&](Loops64 across) {
                least = smaller(least, fetched(layer, t, own, packs.loops, across));
            });
            reads += least;
        }
        group += {load(&work.energy[first]) + reads * layer.read,
                  larger(load(&work.compute[first]), (load(&work.words[first]) + reads) / layer.words_per_cycle), 0};
    }
    const Lanes least = price.of(group.energy * segment_.repeat, group.cycles * segment_.repeat);
    return any((load(&least_room_[first]) > 0) & (least < limit));
}

void NestEstimate::list_residencies(const Packs& packs) {
    for (int index = 0; index < int(segment_.layers.size()); ++index) {
        const FusedLayer& layer = segment_.layers[index];
        first_operand_.push_back(operands_.size());
        for (int t = 0; t < int(layer.spaces.size()); ++t) {
            if (layer.spaces[t].written || layer.handed >> t & 1) continue;
            Operand operand{index, t, leader_of(packs, index, t), {}};
            const auto over_packs = [&](const auto& number) {
                PerSize numbers(padded_);
                for (std::size_t pack = packs.begin; pack < packs.end; ++pack)
                    store(number(packs.of(pack, index)), &numbers[pack * LANES]);
                return numbers;
            };
            PerSize every = over_packs([&](const LoopCut* own) { return fetched(layer, t, own, packs.loops, 0); });
            // an operand that its mapping by itself keeps out of the home passes by there, too, unless it stays
            const double alone = layer.home_reads[std::size_t(options_.home) * layer.spaces.size() + std::size_t(t)];
            PerSize inward(every);
            for (double& words : inward) words = std::max(words - alone, 0.0);
            operand.residencies.push_back(
                {false, 0, PerSize(padded_), std::move(every), alone > 0 ? inward : PerSize(padded_)});
            if (operand.leader >= 0) {  // there already where the first layer's stays
                for (const Residency& first : operands_[operand.leader].residencies)
                    if (first.stays)
                        operand.residencies.push_back({true, first.across, PerSize(padded_), PerSize(padded_), inward});
                operands_.push_back(std::move(operand));
                continue;
            }
            const bool leads = std::any_of(segment_.shared.begin(), segment_.shared.end(), [&](const SharedOperand& other) {
                return other.first == index && other.first_tensor == t;
            });
            if (leads)  // within a step, for the other layers that read it
                operand.residencies.push_back({true, 0, over_packs([&](const LoopCut* own) {
                    return held(layer, t, own, packs.loops, 0);
                }), operand.residencies[0].reads, inward});
            stay_along(layer, t, packs.of(0, index), packs.loops, [&](Loops64 across) {
                Residency more{true, across, {}, over_packs([&](const LoopCut* own) {
                    return fetched(layer, t, own, packs.loops, across);
                }), inward};
                const PerSize& before = operand.residencies.back().reads;
                bool saves = false;
                for (std::size_t column = 0; column < batch_; ++column)
                    saves = saves || more.reads[column] < before[column] * (1 - LESS);
                if (!saves) return;
                more.words = over_packs([&](const LoopCut* own) { return held(layer, t, own, packs.loops, across); });
                operand.residencies.push_back(std::move(more));
            });
            operands_.push_back(std::move(operand));
        }
    }
    first_operand_.push_back(operands_.size());
}

// How an operand is shared with an earlier layer; the end if it is not.
std::vector<SharedOperand>::const_iterator NestEstimate::shared_with(int layer, int tensor) const {
    return std::find_if(segment_.shared.begin(), segment_.shared.end(), [&](const SharedOperand& shared) {
        return shared.layer == layer && shared.tensor == tensor;
    });
}

// The operand of an earlier layer that has all words of this one on the chip in every step, if both share a tensor and
// loops cut it alike; else -1.
int NestEstimate::leader_of(const Packs& packs, int layer, int tensor) const {
    const auto own = shared_with(layer, tensor);
    if (own == segment_.shared.end()) return -1;
    const auto rank_moved = [&](int place, int space, int dim) {
        const FusedLayer& of = segment_.layers[place];
        return dim >= 0 && of.moves(space, dim) ? &of.rank_of(space, dim) - of.spaces[space].ranks.data() : -1;
    };
    for (std::size_t pack = packs.begin; pack < packs.end; ++pack)
        for (int loop = 0; loop < packs.loops; ++loop) {
            const LoopCut &mine = packs.of(pack, layer)[loop], &first = packs.of(pack, own->first)[loop];
            const auto rank = rank_moved(layer, tensor, mine.dim);
            if (rank != rank_moved(own->first, own->first_tensor, first.dim)) return -1;
            for (int lane = 0; lane < LANES; ++lane)
                if (mine.steps[lane] != first.steps[lane] ||
                    (rank >= 0 && (mine.first[lane] != first.first[lane] || mine.later[lane] != first.later[lane])))
                    return -1;
        }
    for (std::size_t k = 0; k < operands_.size(); ++k)
        if (operands_[k].layer == own->first && operands_[k].tensor == own->first_tensor) return int(k);
    return -1;
}

static double mean(const PerSize& values, std::size_t batch) {
    return std::accumulate(values.begin(), values.begin() + std::ptrdiff_t(batch), 0.0) / double(batch);
}

// The full product of the operands' residencies, the last operand changing fastest, or two greedy sequences: one
// operand after the other is made resident, by saved words per occupied word, and smallest footprint first.
void NestEstimate::list_choices() {
    const auto own = [](const Operand& operand) { return operand.leader < 0; };
    double combinations = 1;
    for (const Operand& operand : operands_)
        if (own(operand)) combinations *= double(operand.residencies.size());
    const auto follow = [&](std::vector<int> pick) {
        for (std::size_t k = 0; k < operands_.size(); ++k)
            if (!own(operands_[k])) pick[k] = pick[operands_[k].leader];
        picks_.push_back(std::move(pick));
    };
    if (combinations <= MOST_COMBINATIONS) {
        for (int number = 0; number < int(combinations); ++number) {
            std::vector<int> pick(operands_.size(), 0);
            for (std::size_t k = operands_.size(), rest = number; k-- > 0;) {
                if (!own(operands_[k])) continue;
                pick[k] = int(rest % operands_[k].residencies.size());
                rest /= operands_[k].residencies.size();
            }
            follow(std::move(pick));
        }
        return;
    }
    struct Step {
        int operand, number;
        double words, saved;
    };
    std::vector<Step> steps;
    for (int k = 0; k < int(operands_.size()); ++k)
        for (int number = 1; own(operands_[k]) && number < int(operands_[k].residencies.size()); ++number) {
            Step step{k, number, 0, 0};
            for (int other = k; other < int(operands_.size()); ++other) {
                if (other != k && operands_[other].leader != k) continue;
                const std::vector<Residency>& of = operands_[other].residencies;
                step.words += mean(of[number].words, batch_) - mean(of[number - 1].words, batch_);
                step.saved += mean(of[number - 1].reads, batch_) - mean(of[number].reads, batch_);
            }
            steps.push_back(step);
        }
    follow(std::vector<int>(operands_.size(), 0));
    const auto gain = [](const Step& step) { return step.saved / std::max(step.words, 1.0); };
    for (bool by_gain : {true, false}) {
        std::stable_sort(steps.begin(), steps.end(), [&](const Step& a, const Step& b) {
            return by_gain ? gain(a) > gain(b) : a.words < b.words;
        });
        std::vector<int> pick(operands_.size(), 0);
        for (const Step& step : steps) {
            pick[step.operand] = std::max(pick[step.operand], step.number);
            follow(pick);
        }
    }
}

NestEstimate::Packs::Cost NestEstimate::Packs::cost(const NestEstimate& nest, const std::vector<int>& pick,
                                                    std::size_t index, std::size_t column, const Refetch* refetch) {
    const FusedLayer& layer = nest.segment_.layers[index];
    const Work& own = nest.work_[index];
    Lanes reads = 0, inward = 0, words = 0;
    for (std::size_t k = nest.first_operand_[index]; k < nest.first_operand_[index + 1]; ++k) {
        const Residency& residency = nest.operands_[k].residencies[pick[k]];
        inward += load(&residency.inward[column]);
        reads += load(&residency.reads[column])
            * (refetch && !residency.stays ? refetch->times[nest.operands_[k].tensor] : 1);
        words += load(&residency.words[column]);
    }
    return {load(&own.energy[column]) + reads * layer.read + inward * layer.home_price[nest.options_.home],
            larger(load(&own.compute[column]), (load(&own.words[column]) + reads) / layer.words_per_cycle), words};
}

// Layers have the same residencies in many choices: each is priced once in every eight tile sizes.
template <typename Found>
void NestEstimate::each_price(std::size_t from, std::size_t to, const Price& price, Found found) const {
    const std::size_t layers = segment_.layers.size();
    std::vector<std::pair<std::size_t, std::size_t>> known;     // a layer, and the first choice with its residencies
    std::vector<std::size_t> cases;                             // number of that one, [choice][layer]
    for (std::size_t row = from; row < to; ++row)
        for (std::size_t index = 0; index < layers; ++index) {
            const auto begin = std::ptrdiff_t(first_operand_[index]), end = std::ptrdiff_t(first_operand_[index + 1]);
            const auto same = std::find_if(known.begin(), known.end(), [&](const auto& other) {
                return other.first == index && std::equal(picks_[row].begin() + begin, picks_[row].begin() + end,
                                                          picks_[other.second].begin() + begin);
            });
            cases.push_back(std::size_t(same - known.begin()));
            if (same == known.end()) known.emplace_back(index, row);
        }
    std::vector<Packs::Cost> costs(known.size());
    for (std::size_t column = 0; column < padded_; column += LANES) {
        if (!any(load(&least_room_[column]) > 0)) continue;
        for (std::size_t number = 0; number < known.size(); ++number)
            costs[number] = Packs::cost(*this, picks_[known[number].second], known[number].first, column);
        for (std::size_t row = 0; row < to - from; ++row) {
            Packs::Cost group;
            for (std::size_t index = 0; index < layers; ++index) group += costs[cases[row * layers + index]];
            const Mask fits = load(&least_room_[column]) - group.words > 0;
            if (any(fits))
                found(row, column,
                      select(fits, price.of(group.energy * segment_.repeat, group.cycles * segment_.repeat), NEVER));
        }
    }
}

std::vector<double> NestEstimate::lower(const Price& price) const {
    PerSize least(picks_.size() * LANES, NEVER);    // of every eighth tile size, [choice][lane]
    each_price(0, picks_.size(), price, [&](std::size_t row, std::size_t, const Lanes& prices) {
        store(smaller(load(&least[row * LANES]), prices), &least[row * LANES]);
    });
    std::vector<double> found;
    for (auto own = least.begin(); own != least.end(); own += LANES)
        found.push_back(*std::min_element(own, own + LANES));
    return found;
}

std::optional<Sized> NestEstimate::best(std::size_t row, const Price& price, double bar) const {
    const std::vector<int>& pick = picks_[row];
    std::vector<std::pair<double, std::size_t>> promising;
    each_price(row, row + 1, price, [&](std::size_t, std::size_t first, const Lanes& lowest) {
        for (std::size_t column = first; column < std::min(first + LANES, batch_); ++column)
            if (lowest[int(column - first)] < bar) promising.emplace_back(lowest[int(column - first)], column);
    });
    std::sort(promising.begin(), promising.end());
    if (promising.size() > CLOSER) promising.resize(CLOSER);
    std::optional<Sized> best;
    const int layers = int(segment_.layers.size()), loops = int(options_.dims.size());
    std::vector<Refetch> refetches(layers);
    std::vector<LoopCut> cuts(std::size_t(layers) * loops);
    Box tiles;
    double tile[64];
    for (const auto& [least, column] : promising) {
        if (least >= bar) break;  // refetches only raise a price
        const std::size_t first = column / LANES * LANES;
        const int lane = int(column % LANES);
        Packs::cut(segment_, options_, sizes_, padded_, first, cuts.data());
        double resident = 0;
        for (std::size_t k = 0; k < operands_.size(); ++k) resident += operands_[k].residencies[pick[k]].words[column];
        bool fits = true;
        for (int index = 0; fits && index < layers; ++index) {
            const FusedLayer& layer = segment_.layers[index];
            Spaces passing = 0, stays = 0;
            for (std::size_t k = first_operand_[index]; k < first_operand_[index + 1]; ++k)
                (operands_[k].residencies[pick[k]].stays ? stays : passing) |= Spaces(1) << operands_[k].tensor;
            largest_tile(layer, cuts.data() + std::size_t(index) * loops, loops, tiles.lanes);
            for (int dim = 0; dim < layer.dims(); ++dim) tile[dim] = tiles.lanes[dim][lane];
            const Work& own = work_[index];
            Spaces by = 0;
            for (int t = 0; t < int(layer.spaces.size()); ++t)
                if (layer.home_reads[std::size_t(options_.home) * layer.spaces.size() + std::size_t(t)] == 0)
                    by |= Spaces(1) << t;
            refetched(layer, tile, passing, stays, by, own.room[column] - resident,
                      options_.resting && index + 1 < layers ? NEVER : own.sums[column], refetches[index]);
            fits = refetches[index].fits;
        }
        if (!fits) continue;
        Packs::Cost group;
        for (int index = 0; index < layers; ++index) group += Packs::cost(*this, pick, index, first, &refetches[index]);
        const Lanes energy = group.energy * segment_.repeat, cycles = group.cycles * segment_.repeat;
        if (const double found = price.of(energy, cycles)[lane]; found < bar)
            best = {found, energy[lane], cycles[lane], column}, bar = found;
    }
    return best;
}

}  // namespace fadiff
