#include "chains.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>

namespace fadiff {

// Of relaxation/objective.py: keeps the logarithm of a metric finite where it is 0; above the value of every legal one.
constexpr double TINY = 1e-30, ILLEGAL = 1e6;

// Values (logarithms of the metric) that differ by less are those of equally good mappings: far above the rounding of
// doubles, far below a word more or less. Nothing was measured.
constexpr double SAME = 1e-9;

// Rounds between two looks at whether the chains agree. Halved together with the number of rounds (10 of 120 before), so
// that there are equally many looks; nothing else was measured.
constexpr int LOOK_EVERY = 5;

// A neighbour has to be better by more than this (in logarithms of the metric) for the last descent to go there, so
// that it cannot circle among mappings that differ by rounding alone.
constexpr double LEAST_DESCENT = 1e-12;

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Objective::value(const Scores& scores) const {
    if (!scores.legal) return ILLEGAL + scores.excess;
    double sum = 0;
    for (const Term& term : terms) {
        const double quantity = term.quantity == EDP ? scores.cycles * scores.energy : term.quantity == ENERGY ? scores.energy
                                : term.quantity == DELAY ? scores.cycles : scores.last_level_accesses;
        sum += term.weight * std::log(quantity + TINY);
    }
    return std::isnan(sum) ? ILLEGAL : sum;
}

Chains::Chains(const Layer& layer, MapSpace space, Objective objective, std::optional<Room> room, std::uint64_t seed)
    : layer_(layer), space_(std::move(space)), objective_(std::move(objective)), room_(std::move(room)), random_(seed),
      work_(layer_), best_value_(std::numeric_limits<double>::infinity()), start_(now()) {}

double Chains::value(const Point& point, Stage stage) {
    const Scores scores = evaluate(layer_, point.mapping, room_ ? &*room_ : nullptr, false, work_);
    double value = objective_.value(scores);
    if (space_.min_parallelism > 0) {  // as for every broken limit the value grows with the octaves that are missing
        double share = 1 / space_.available;
        for (int level = 0; level < layer_.levels; ++level) share *= work_.loops.fan[level];
        if (share < space_.min_parallelism)
            value = std::max(value, ILLEGAL + std::log2(space_.min_parallelism / share));
    }
    ++evaluations_;
    if (value < best_value_) {
        if (best_) *best_ = point;
        else best_ = point;
        best_value_ = value;
        history_.push_back({now() - start_, evaluations_, value, stage});
    }
    return value;
}

void Chains::add(Point point) {
    const double own = value(point, START);
    chains_.push_back({std::move(point), own, own});
}

void Chains::start_random(int count) {
    for (int i = 0; i < count; ++i) {
        Point point(layer_);
        draw_point(layer_, space_, int(chains_.size()), random_, point);
        add(std::move(point));
    }
}

void Chains::start_at(const Mapping& mapping) { add(point_of(layer_, space_, mapping)); }

void Chains::begin(const Annealing& plan) {
    plan_ = plan;
    round_ = 0;
    agreed_ = false;
    while (near_.size() < 2) near_.emplace_back(layer_);
    for (Chain& chain : chains_) chain.lowest = chain.value;
}

// One move of a chain. The neighbour tried with the lowest value + temperature * noise is picked, with Gumbel noise in
// proportion to exp(-value / temperature); a pick that is worse is taken with the probability exp(-rise / temperature).
void Chains::step(Chain& chain, double temperature) {
    double lowest = std::numeric_limits<double>::infinity(), picked = lowest;
    bool some = false;
    for (int i = 0; i < plan_.tries; ++i) {
        if (!move(layer_, space_, chain.point, random_, near_[1])) continue;
        const double own = value(near_[1], REFINE);
        const double noise = plan_.greedy ? 0 : -std::log(-std::log(random_.uniform() + TINY) + TINY);
        const double rank = own - temperature * noise;
        if (rank < lowest || !some) {
            lowest = rank;
            picked = own;
            some = true;
            std::swap(near_[0], near_[1]);
        }
    }
    if (!some) return;
    const double rise = std::max(picked - chain.value, 0.0);
    if (random_.uniform() < std::exp(-rise / temperature)) {
        std::swap(chain.point, near_[0]);
        chain.value = picked;
        chain.lowest = std::min(chain.lowest, picked);
    }
}

bool Chains::anneal(int rounds) {
    for (const int end = std::min(round_ + rounds, plan_.rounds); round_ < end;) {
        const double ratio = double(round_) / std::max(plan_.rounds - 1, 1);
        const double temperature = plan_.temperature_start * std::pow(plan_.temperature_end / plan_.temperature_start, ratio);
        for (Chain& chain : chains_) step(chain, temperature);
        ++round_;
        if (round_ != plan_.rounds && (round_ % LOOK_EVERY || round_ < plan_.rounds_least)) continue;
        const auto met = std::count_if(chains_.begin(), chains_.end(),
                                       [&](const Chain& chain) { return chain.lowest <= best_value_ + SAME; });
        if (met >= plan_.chains_agreeing) return agreed_ = true;
    }
    return round_ >= plan_.rounds;
}

void Chains::keep_strongest(int count) {
    std::stable_sort(chains_.begin(), chains_.end(), [](const Chain& a, const Chain& b) { return a.value < b.value; });
    if (int(chains_.size()) > count) chains_.erase(chains_.begin() + count, chains_.end());
}

const Point& Chains::best_point() const {
    if (!best_) throw std::invalid_argument("no chain has started");
    return *best_;
}

bool Chains::polish(int steps) {
    for (int i = 0; i < steps; ++i) {
        const double before = best_value_;
        const Point from = best_point();
        each_neighbour(layer_, space_, from, random_, [&](const Point& point) { value(point, POLISH); });
        if (!(best_value_ < before - LEAST_DESCENT)) return true;
    }
    return false;
}

}  // namespace fadiff
