#include "nest_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace fadiff {

static const double NEVER = std::numeric_limits<double>::infinity();

// Residency choices up to which the full product is priced: a limit of time, not measured by itself.
static const double MOST_COMBINATIONS = 48;

// Tile sizes of one choice that are priced with refetches: a limit of time, not measured.
static const std::size_t CLOSER = 64;

// The part by which words must be fewer to count as saved: a guard against rounding.
static const double LESS = 1e-9;

NestEstimate::NestEstimate(const FusedSegment& segment, NestOptions options, std::vector<double> sizes,
                           std::size_t batch)
    : segment_(segment), options_(std::move(options)), sizes_(std::move(sizes)), batch_(batch) {
    work_.reserve(batch_ * segment_.layers.size());
    std::vector<Cuts> cuts(batch_);
    for (std::size_t column = 0; column < batch_; ++column) {
        cuts_of(column, cuts[column]);
        lay_out(cuts[column]);
    }
    list_residencies(cuts);
    list_choices();
}

void NestEstimate::cuts_of(std::size_t column, Cuts& cuts) const {
    double sizes[64];
    for (std::size_t loop = 0; loop < options_.dims.size(); ++loop) sizes[loop] = sizes_[loop * batch_ + column];
    cut_layers(segment_, options_.dims, sizes, options_.retained, cuts);
}

// Adds room and work of every layer in one column of tile sizes.
void NestEstimate::lay_out(const Cuts& cuts) {
    const int layers = int(segment_.layers.size());
    std::vector<double> rest(layers - 1), beyond(layers - 1);  // words in between; words beyond these while in use
    double resting = 0;
    for (int link = 0; link + 1 < layers; ++link) {
        const FusedLayer& layer = segment_.layers[link];
        const LoopCut* own = &cuts.of[std::size_t(link) * cuts.loops];
        rest[link] = outlasting(layer, own, cuts.loops, options_.retained[link], segment_.links[link]);
        beyond[link] = held(layer, layer.output, own, cuts.loops, options_.retained[link], &segment_.links[link]) - rest[link];
        resting += rest[link];
    }
    const FusedLayer& last = segment_.layers.back();
    double going_on = 0, tile[64];
    bool adds = false;
    for (int dim : options_.dims) adds = adds || !last.moves(last.output, dim);
    if (adds && !options_.spilled) {
        largest_tile(last, cuts.of.data() + std::size_t(layers - 1) * cuts.loops, cuts.loops, tile);
        going_on = last.spaces[last.output].words(tile);
    }
    double least = NEVER;
    for (int index = 0; index < layers; ++index) {
        Work work = work_of(index, cuts);
        work.room = options_.usable - resting;
        if (index > 0) work.room -= beyond[index - 1];
        if (index + 1 < layers) work.room -= beyond[index];
        if (index > 0 && segment_.links[index - 1].beside) {  // its tile lies beside what it is pooled from, or scaled with
            const FusedLayer& layer = segment_.layers[index];
            largest_tile(layer, cuts.of.data() + std::size_t(index) * cuts.loops, cuts.loops, tile);
            work.room -= layer.spaces[layer.linked].words(tile);
        }
        work.sums = segment_.layers[index].sums_room;
        // Sums of the last layer that go on stay there while the other layers run, and must fit at once.
        if (index + 1 < layers) work.sums -= going_on;
        else if (going_on > work.sums) work.room = -NEVER;
        least = std::min(least, work.room);
        work_.push_back(work);
    }
    least_room_.push_back(least);
}

// The part of so many lanes in the largest divisor of an extent that they can take.
static double busy(double extent, double lanes) {
    const long whole = long(extent);
    for (long size = std::min(whole, long(lanes)); size > 1; --size)
        if (whole % size == 0) return double(size) / lanes;
    return 1 / lanes;
}

// Cycles of a layer's work once over, as the mapping does it whose lanes its tiles fill best.
static double compute_cycles(const FusedLayer& layer, const LoopCut* cuts, int loops) {
    std::vector<double> extents = layer.bounds;
    for (int loop = 0; loop < loops; ++loop)
        if (cuts[loop].dim >= 0) extents[cuts[loop].dim] = cuts[loop].usual();
    double least = NEVER;
    for (const SideBySide& known : layer.known) {
        double part = 1;
        for (int d = 0; d < layer.dims(); ++d)
            if (known.lanes[d] > 1) part *= busy(extents[d], known.lanes[d]);
        least = std::min(least, known.compute / part);
    }
    return least;
}

NestEstimate::Work NestEstimate::work_of(int index, const Cuts& cuts) const {
    const FusedLayer& layer = segment_.layers[index];
    const LoopCut* own = cuts.of.data() + std::size_t(index) * cuts.loops;
    const bool last = index + 1 == int(segment_.layers.size());
    const double made = layer.spaces[layer.output].words(layer.bounds.data());
    double rounds = 1, again = 0, passed_on = 0, joined = 0;
    for (int loop = 0; loop < cuts.loops; ++loop) {
        const LoopCut& cut = own[loop];
        // Spilled sums are written once per step along the loops that add to them, and read again but the first time.
        if (last && options_.spilled && !layer.moves(layer.output, cut.dim)) rounds *= cut.steps;
    }
    const double* alone = layer.home_reads.data() + std::size_t(options_.home) * layer.spaces.size();
    for (int t = 0; t < int(layer.spaces.size()); ++t)
        if (!layer.spaces[t].written) again += std::max(fetched(layer, t, own, cuts.loops, 0) - alone[t], 0.0);
    if (layer.linked >= 0) {
        const FusedLink& before = segment_.links[index - 1];
        if (before.written_pooled) passed_on = layer.spaces[layer.linked].words(layer.bounds.data());
        if (before.elsewhere > 0)
            joined = before.elsewhere * fetched(layer, layer.linked, own, cuts.loops,
                                                before.beside ? 0 : options_.retained[index - 1]);
    }
    const double times = computed(layer, own, cuts.loops);
    const bool handed = last || segment_.links[index].written_whole;
    return {times, times * compute_cycles(layer, own, cuts.loops), made * (rounds - 1) + joined, (handed ? made * rounds : 0) + passed_on,
            (again + (last ? 0 : made) + passed_on) * layer.home_price[options_.home], 0, 0};
}

void NestEstimate::list_residencies(const std::vector<Cuts>& cuts) {
    const int loops = int(options_.dims.size());
    for (int index = 0; index < int(segment_.layers.size()); ++index) {
        const FusedLayer& layer = segment_.layers[index];
        for (int t = 0; t < int(layer.spaces.size()); ++t) {
            if (layer.spaces[t].written || t == layer.linked) continue;
            Operand operand{index, t, {}};
            const auto own = [&](std::size_t column) { return cuts[column].of.data() + std::size_t(index) * loops; };
            Residency passing;
            passing.words.assign(batch_, 0);
            for (std::size_t column = 0; column < batch_; ++column)
                passing.reads.push_back(fetched(layer, t, own(column), loops, 0));
            operand.residencies.push_back(std::move(passing));
            Loops64 across = 0;
            for (int loop = loops - 1; batch_ && loop >= 0; --loop) {
                const int dim = own(0)[loop].dim;
                if (dim >= 0 && layer.moves(t, dim) && layer.spaces[t].moved_by(dim).terms.size() < 2) continue;
                across |= Loops64(1) << loop;
                Residency more{true, across, {}, {}};
                bool saves = false;
                for (std::size_t column = 0; column < batch_; ++column) {
                    more.reads.push_back(fetched(layer, t, own(column), loops, across));
                    saves = saves || more.reads.back() < operand.residencies.back().reads[column] * (1 - LESS);
                }
                if (!saves) continue;
                for (std::size_t column = 0; column < batch_; ++column)
                    more.words.push_back(held(layer, t, own(column), loops, across));
                operand.residencies.push_back(std::move(more));
            }
            operands_.push_back(std::move(operand));
        }
    }
}

static double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

// The full product of the operands' residencies, the last operand changing fastest, or two greedy sequences: one
// operand after the other is made resident, by saved words per occupied word, and smallest footprint first.
void NestEstimate::list_choices() {
    if (!batch_) return;
    double combinations = 1;
    for (const Operand& operand : operands_) combinations *= double(operand.residencies.size());
    if (combinations <= MOST_COMBINATIONS) {
        std::vector<int> pick(operands_.size(), 0);
        for (bool more = true; more;) {
            picks_.push_back(pick);
            more = false;
            for (std::size_t k = operands_.size(); k-- > 0 && !more;) {
                more = ++pick[k] < int(operands_[k].residencies.size());
                if (!more) pick[k] = 0;
            }
        }
        return;
    }
    struct Step {
        int operand, number;
        double words, saved;
    };
    std::vector<Step> steps;
    for (int k = 0; k < int(operands_.size()); ++k)
        for (int number = 1; number < int(operands_[k].residencies.size()); ++number) {
            const Residency &now = operands_[k].residencies[number], &before = operands_[k].residencies[number - 1];
            steps.push_back({k, number, mean(now.words) - mean(before.words), mean(before.reads) - mean(now.reads)});
        }
    picks_.emplace_back(operands_.size(), 0);
    const auto gain = [](const Step& step) { return step.saved / std::max(step.words, 1.0); };
    for (bool by_gain : {true, false}) {
        std::stable_sort(steps.begin(), steps.end(), [&](const Step& a, const Step& b) {
            return by_gain ? gain(a) > gain(b) : a.words < b.words;
        });
        std::vector<int> pick(operands_.size(), 0);
        for (const Step& step : steps) {
            pick[step.operand] = std::max(pick[step.operand], step.number);
            picks_.push_back(pick);
        }
    }
}

// Words of the operands that stay, of all layers together: they lie there all the time.
double NestEstimate::staying(const std::vector<int>& pick, std::size_t column) const {
    double words = 0;
    for (std::size_t k = 0; k < operands_.size(); ++k) words += operands_[k].residencies[pick[k]].words[column];
    return words;
}

// Energy and cycles of the group; without `refetches` every passing operand comes in once per step.
void NestEstimate::price_column(const std::vector<int>& pick, std::size_t column,
                                const std::vector<Refetch>* refetches, double& energy, double& cycles) const {
    energy = cycles = 0;
    std::size_t k = 0;
    for (int index = 0; index < int(segment_.layers.size()); ++index) {
        const FusedLayer& layer = segment_.layers[index];
        const Work& own = work(column, index);
        double reads = own.reads;
        for (; k < operands_.size() && operands_[k].layer == index; ++k) {
            const Residency& residency = operands_[k].residencies[pick[k]];
            reads += residency.reads[column]
                * (refetches && !residency.stays ? (*refetches)[index].times[operands_[k].tensor] : 1);
        }
        energy += layer.inside * own.computed + reads * layer.read + own.writes * layer.write + own.extra;
        cycles += std::max(own.compute, (reads + own.writes) / layer.words_per_cycle);
    }
    energy *= segment_.repeat;
    cycles *= segment_.repeat;
}

double NestEstimate::lower_price(const std::vector<int>& pick, std::size_t column, const Price& price) const {
    if (!(least_room_[column] - staying(pick, column) > 0)) return NEVER;
    double energy, cycles;
    price_column(pick, column, nullptr, energy, cycles);
    return price.of(energy, cycles);
}

double NestEstimate::lower(std::size_t row, const Price& price) const {
    double least = NEVER;
    for (std::size_t column = 0; column < batch_; ++column)
        least = std::min(least, lower_price(picks_[row], column, price));
    return least;
}

Sized NestEstimate::best(std::size_t row, const Price& price, double bar) const {
    const std::vector<int>& pick = picks_[row];
    std::vector<std::pair<double, std::size_t>> promising;
    for (std::size_t column = 0; column < batch_; ++column) {
        const double least = lower_price(pick, column, price);
        if (least < bar) promising.emplace_back(least, column);
    }
    std::sort(promising.begin(), promising.end());
    if (promising.size() > CLOSER) promising.resize(CLOSER);
    Sized best;
    std::vector<Refetch> refetches(segment_.layers.size());
    Cuts cuts;
    double tile[64];
    for (const auto& [least, column] : promising) {
        if (least >= bar) break;  // refetches only raise a price
        cuts_of(column, cuts);
        const double resident = staying(pick, column);
        bool fits = true;
        std::size_t k = 0;
        for (int index = 0; fits && index < int(segment_.layers.size()); ++index) {
            const FusedLayer& layer = segment_.layers[index];
            Spaces passing = 0, stays = 0;
            for (; k < operands_.size() && operands_[k].layer == index; ++k)
                (operands_[k].residencies[pick[k]].stays ? stays : passing) |= Spaces(1) << operands_[k].tensor;
            largest_tile(layer, cuts.of.data() + std::size_t(index) * cuts.loops, cuts.loops, tile);
            const Work& own = work(column, index);
            refetched(layer, tile, passing, stays, own.room - resident, own.sums, refetches[index]);
            fits = refetches[index].fits;
        }
        if (!fits) continue;
        Sized sized{true, 0, 0, 0, column};
        price_column(pick, column, &refetches, sized.energy, sized.cycles);
        sized.price = price.of(sized.energy, sized.cycles);
        if (sized.price < bar) best = sized, bar = sized.price;
    }
    return best;
}

}  // namespace fadiff
