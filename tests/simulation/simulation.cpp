#include "tests/simulation/simulation.h"

#include <fmt/format.h>

namespace lockstep::simulation {
namespace {

Simulation* the_simulation = nullptr;

}  // namespace

Simulation::Simulation(std::uint64_t seed, bool keeps_notes) : random_(seed), keeps_notes_(keeps_notes) {
  the_simulation = this;
}
Simulation::~Simulation() { the_simulation = nullptr; }
Simulation* Simulation::current() { return the_simulation; }

void Simulation::after(Time delay, std::function<void()> action) {
  queue_.emplace(std::pair(now_ + delay, next_number_++), std::move(action));
}

bool Simulation::step(Time end) {
  const auto next = queue_.begin();
  if (next == queue_.end() || next->first.first > end) return false;
  now_ = next->first.first;
  const auto action = std::move(next->second);
  queue_.erase(next);
  ++events_;
  action();
  return true;
}

void Simulation::keep_note(const std::string& text) {
  notes_.push_back(fmt::format("{:12.3f} ms  {}", 1e-6 * static_cast<double>(now_.count()), text));
}

void Simulation::fail(const std::string& violation) {
  if (!violation_.empty()) return;
  violation_ = violation;
  note([&] { return "VIOLATION: " + violation; });
}

}  // namespace lockstep::simulation
