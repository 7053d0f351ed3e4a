#include "tests/simulation/process.h"

#include <algorithm>
#include <utility>

namespace lockstep::simulation {
namespace {

Process* the_process = nullptr;

}  // namespace

Process* Process::current() { return the_process; }

Process::Process(Simulation& simulation, int number, int host, std::function<void()> program,
                 std::function<void()> on_end)
    : simulation_(simulation),
      number_(number),
      host_(host),
      program_(std::move(program)),
      on_end_(std::move(on_end)),
      fiber_([this] {
        try {
          check();
          program_();
        } catch (const Killed&) {
        }
      }) {}

void Process::start(Time delay) {
  has_started_ = true;
  simulation_.after(delay, [this, park = parks_] { wake(park); });
}

void Process::run() {
  Process* const before = std::exchange(the_process, this);
  fiber_.resume();
  the_process = before;
  if (fiber_.has_ended()) on_end_();
}

void Process::kill() {
  if (!lives() || std::exchange(is_killed_, true)) return;
  simulation_.note([&] { return name() + " is killed"; });
  if (this == the_process) return;
  ++parks_;
  run();
}

void Process::stop(Time time) {
  if (!lives()) return;
  stopped_until_ = std::max(stopped_until_, simulation_.now() + time);
}

void Process::wake(std::uint64_t park) {
  if (!lives() || park != parks_ || !has_started_) return;
  if (stands_still()) {
    simulation_.after(stopped_until_ - simulation_.now(), [this, park] { wake(park); });
    return;
  }
  ++parks_;
  run();
}

void Process::park() {
  check();
  Fiber::pause();
  check();
}

void Process::sleep(Time time) {
  check();
  simulation_.after(time, [this, park = parks_] { wake(park); });
  park();
}

}  // namespace lockstep::simulation
