// Objects whose methods share scratch, as Python holds them: while one call works on such an object any other is refused,
// as of another thread: calls leave the interpreter to others.

#pragma once

#include <atomic>
#include <stdexcept>
#include <utility>

namespace fadiff {

template <typename Object>
struct OneCall : Object {
    using Object::Object;
    std::atomic_flag busy = ATOMIC_FLAG_INIT;
};

// Holds an object for one call.
class Claim {
public:
    explicit Claim(std::atomic_flag& busy) : busy_(busy) {
        if (busy.test_and_set(std::memory_order_acquire)) throw std::runtime_error("in use by another call");
    }
    ~Claim() { busy_.clear(std::memory_order_release); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

private:
    std::atomic_flag& busy_;
};

// A method, or a function of the object, as a function of what Python holds.
template <typename Object, typename Result, typename... Arguments>
auto one_call(Result (Object::*method)(Arguments...)) {
    return [method](OneCall<Object>& object, Arguments... arguments) -> Result {
        const Claim claim(object.busy);
        return (object.*method)(std::forward<Arguments>(arguments)...);
    };
}

template <typename Object, typename Result, typename... Arguments>
auto one_call(Result (Object::*method)(Arguments...) const) {
    return [method](OneCall<Object>& object, Arguments... arguments) -> Result {
        const Claim claim(object.busy);
        return (object.*method)(std::forward<Arguments>(arguments)...);
    };
}

template <typename Object, typename Result, typename... Arguments>
auto one_call(Result (*function)(Object&, Arguments...)) {
    return [function](OneCall<Object>& object, Arguments... arguments) -> Result {
        const Claim claim(object.busy);
        return function(object, std::forward<Arguments>(arguments)...);
    };
}

}  // namespace fadiff
