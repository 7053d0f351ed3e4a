// Random collectives over random ranks, some of which are killed or stopped: correct results, or an error that names
// the rank, and nothing left behind. In the suite a few seeds, one for each number of ranks; with LOCKSTEP_LONG_TESTS a
// hundred. LOCKSTEP_STRESS_S: seconds to spend instead; LOCKSTEP_STRESS_SEED: first seed.
//
// Seen to fail with each of these changes to the engine: a mapping that is not unmapped, a received descriptor that is
// copied and not closed, one of a watched process that stays open (LEAK in all tests with processes); an ended process
// that is not reported (those with killed ranks); a sum of finished chunks that may be one short, a round that may be
// one behind, a piece of a message that is announced before it is written (wrong values). Faults that need a rarer
// moment, such as a missing fence, are found by the models of the protocols.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/comm/contract.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// Equal numbers on every rank.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  /// From zero to some hundred thousand, with all magnitudes equally likely.
  std::int64_t count() { return below(std::int64_t{1} << below(19)); }

 private:
  std::mt19937_64 random_;
};

// A rank's data in a step, and the expected result of all ranks.
struct StepData {
  at::ScalarType dtype;
  ReduceOp op;
  std::int64_t count;
  std::int64_t shift;  // so that no two steps have the same values

  at::Tensor of(int rank) const { return values_of(dtype, op, rank, count + shift).narrow(0, shift, count).clone(); }
  at::Tensor reduced(int world_size) const {
    return reduced_values(dtype, op, world_size, count + shift).narrow(0, shift, count);
  }
};

StepData random_data(Dice& dice, int world_size) {
  StepData data{};
  data.dtype = all_dtypes()[static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(all_dtypes().size())))];
  const auto reductions = reductions_of(data.dtype);
  data.op = reductions[static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(reductions.size())))];
  if (world_size > 8 && data.op == ReduceOp::Product) data.op = ReduceOp::Max;  // would not fit
  data.count = dice.count() / (world_size > 8 ? 16 : 1);
  data.shift = dice.below(11);
  return data;
}

void expect_bits(const at::Tensor& got, const at::Tensor& want, const char* what) {
  if (!same_bits(got, want)) throw std::runtime_error(std::string(what) + " gave wrong values");
}

// Several all-reduces are pending at once, and are waited for in any order.
void overlapping_all_reduces(Communicator& group, Dice& dice) {
  struct Pending {
    StepData data;
    at::Tensor tensor;
    std::shared_ptr<Work> work;
  };
  std::vector<Pending> pending;
  for (std::int64_t i = 1 + dice.below(4); i > 0; --i) {
    Pending one{random_data(dice, group.world_size()), {}, nullptr};
    const at::Tensor mine = one.data.of(group.rank());
    one.tensor = dice.one_in(2) ? group.allocate({one.data.count}, one.data.dtype).copy_(mine) : mine;
    one.work = group.all_reduce_async(one.tensor, one.data.op);
    group.progress();
    pending.push_back(std::move(one));
  }
  while (!pending.empty()) {
    const auto which = dice.below(static_cast<std::int64_t>(pending.size()));
    Pending& one = pending[static_cast<std::size_t>(which)];
    one.work->wait();
    expect_bits(one.tensor, one.data.reduced(group.world_size()), "all_reduce_async");
    pending.erase(pending.begin() + which);
  }
}

void to_the_next_rank(Communicator& group, Dice& dice) {
  const StepData data = random_data(dice, group.world_size());
  const int size = group.world_size();
  const int before = (group.rank() + size - 1) % size;
  at::Tensor got = at::empty({data.count}, data.dtype);
  const auto sent = group.isend(data.of(group.rank()), (group.rank() + 1) % size);
  group.recv(got, before);
  sent->wait();
  expect_bits(got, data.of(before), "recv");
}

void one_step(Communicator& group, Dice& dice) {
  if (group.world_size() == 1) return;
  const std::int64_t kind = dice.below(9);
  if (kind == 0) return overlapping_all_reduces(group, dice);
  if (kind == 1) return to_the_next_rank(group, dice);
  if (kind == 2) return group.barrier();
  const StepData data = random_data(dice, group.world_size());
  const int root = static_cast<int>(dice.below(group.world_size()));
  at::Tensor mine = data.of(group.rank());
  if (kind == 3) {
    group.broadcast(mine, root);
    expect_bits(mine, data.of(root), "broadcast");
  } else if (kind == 4) {
    at::Tensor out = at::empty({data.count * group.world_size()}, data.dtype);
    group.all_gather(out, mine);
    for (int r = 0; r < group.world_size(); ++r) {
      expect_bits(out.narrow(0, r * data.count, data.count), data.of(r), "all_gather");
    }
  } else if (kind == 5) {
    at::Tensor out = at::empty({data.count}, data.dtype);
    group.reduce_scatter(out, mine.repeat({group.world_size()}), data.op);
    expect_bits(out, data.reduced(group.world_size()), "reduce_scatter");
  } else {
    if (dice.one_in(2)) mine = group.allocate({data.count}, data.dtype).copy_(mine);
    group.all_reduce(mine, data.op);
    expect_bits(mine, data.reduced(group.world_size()), "all_reduce");
  }
}

// The resources of a process that could leak.
struct Holdings {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t shared_mappings = 0;

  static std::size_t entries(const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  static Holdings now() {
    Holdings it{entries("/proc/self/fd"), entries("/proc/self/task"), 0};
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      it.shared_mappings += line.find("memfd:lockstep") != std::string::npos ? 1 : 0;
    }
    return it;
  }
};

void expect_nothing_left(const Holdings& before) {
  Holdings after = Holdings::now();
  const Deadline end = Deadline::after(milliseconds(10'000));  // a thread that was joined stays in /proc for a moment
  while (after.threads > before.threads && !end.passed()) after = Holdings::now();
  if (after.descriptors > before.descriptors) throw std::runtime_error("LEAK: descriptors stayed open");
  if (after.threads > before.threads) throw std::runtime_error("LEAK: threads still run");
  if (after.shared_mappings > 0) throw std::runtime_error("LEAK: shared memory stayed mapped");
}

struct StressPlan {
  std::uint64_t seed = 0;
  int world_size = 2;
  int signal = 0;  // sent to one rank, or 0
  int victim = 0;
  int steps = 40;
};

void hit_after(std::int64_t delay_us, int signal) {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    ::kill(::getpid(), signal);
  }).detach();
}

void run_plan(const StressPlan& plan, const std::string& engine, const Membership& membership) {
  Dice dice(plan.seed);
  auto group = make_communicator(engine, membership);
  const auto half = group->split(membership.rank % 2);
  const std::int64_t fatal_step = dice.below(plan.steps);
  const std::int64_t delay_us = dice.one_in(3) ? 0 : dice.below(3000);
  for (std::int64_t step = 0; step < plan.steps || plan.signal != 0; ++step) {
    if (plan.signal != 0 && step == fatal_step && membership.rank == plan.victim) hit_after(delay_us, plan.signal);
    one_step(*group, dice);
    if (dice.one_in(8)) {
      Dice theirs(plan.seed + static_cast<std::uint64_t>(step));
      one_step(*half, theirs);
    }
  }
}

void expect_ends(const StressPlan& plan, const std::vector<RankOutcome>& ends) {
  const std::string global = "(" + std::to_string(plan.victim) + " of the job)";
  for (int rank = 0; rank < plan.world_size; ++rank) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    if (plan.signal == 0) {
      EXPECT_FALSE(end.failed) << "rank " << rank << ": " << end.text << " signal " << end.signal;
      continue;
    }
    if (rank == plan.victim) continue;
    EXPECT_TRUE(end.failed) << "rank " << rank;
    EXPECT_EQ(end.signal, 0) << "rank " << rank;
    EXPECT_EQ(end.timed_out, plan.signal == SIGSTOP) << end.text;
    const std::string happened = end.text.substr(0, end.text.find("\n  where:"));
    const bool named = happened.find("rank " + std::to_string(plan.victim) + " on ") != std::string::npos ||
                       happened.find(global) != std::string::npos;
    // In the half without the victim, the lost rank is one of both groups.
    const bool in_half = end.text.find("group default/") != std::string::npos;
    const bool echo = in_half && happened.find("left the group") != std::string::npos;
    EXPECT_TRUE(named || echo) << "rank " << rank << ": " << end.text;
  }
}

void run_in_processes(const StressPlan& plan) {
  SCOPED_TRACE("seed " + std::to_string(plan.seed) + ", " + std::to_string(plan.world_size) + " ranks, signal " +
               std::to_string(plan.signal) + " to rank " + std::to_string(plan.victim));
  RanksOptions options;
  options.timeout = plan.signal == SIGSTOP ? milliseconds(2000) : milliseconds(30'000);
  const auto body = [&](const Membership& membership) {
    at::ones({1}).add(1);  // so that LibTorch's own threads and files exist
    const Holdings before = Holdings::now();
    std::exception_ptr failure;
    try {
      run_plan(plan, "shm", membership);
    } catch (...) {
      failure = std::current_exception();
    }
    expect_nothing_left(before);
    if (failure) std::rethrow_exception(failure);
  };
  expect_ends(plan, ranks_as_processes(plan.world_size, body, options));
}

std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) names.insert(entry.path().string());
  return names;
}

// A program that runs beside this one, such as the fuzzer, names files by its process.
bool is_of_another_process(const std::string& name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  const int process = digits < name.size() ? std::atoi(name.c_str() + digits) : 0;
  return process > 0 && process != ::getpid() && ::kill(process, 0) == 0;
}

class Stress : public ::testing::Test {
 protected:
  void SetUp() override { dev_shm_ = files_in("/dev/shm"); }
  void TearDown() override {
    for (const std::string& name : files_in("/dev/shm")) {
      const bool ours = name.find("lockstep") != std::string::npos && !is_of_another_process(name);
      EXPECT_FALSE(ours && dev_shm_.count(name) == 0) << name << " was left behind";
    }
  }
  /// Calls `run(seed)` with so many seeds one after the other, or for as long as LOCKSTEP_STRESS_S says.
  template <class Run>
  void for_seeds(int usual, Run&& run) {
    const auto wanted = env_int("LOCKSTEP_STRESS_S");
    const Deadline until = Deadline::after(milliseconds(wanted.value_or(0) * 1000 / 3));
    auto seed = static_cast<std::uint64_t>(env_int("LOCKSTEP_STRESS_SEED").value_or(1));
    for (int ran = 0; !HasFailure() && (wanted ? !until.passed() : ran < usual); ++ran) run(seed++);
  }

 private:
  std::set<std::string> dev_shm_;
};

TEST_F(Stress, ManyThreads) {
  for_seeds(test_size(7, 100), [](std::uint64_t seed) {
    const StressPlan plan{seed, 2 + static_cast<int>(seed % 7)};
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_ends(plan, ranks_as_threads(plan.world_size,
                                       [&](const Membership& membership) { run_plan(plan, "thread", membership); }));
  });
}

// Seconds: a group of processes for each seed, with random operations.
TEST_F(Stress, ManyProcesses) {
  for_seeds(test_size(7, 100), [](std::uint64_t seed) { run_in_processes({seed, 2 + static_cast<int>(seed % 7)}); });
}

// Seconds: 64 processes share two cores.
TEST_F(Stress, SixtyFourProcesses) { run_in_processes({64, 64, 0, 0, 6}); }

// Seconds: a group of processes for each seed, which loses a rank.
TEST_F(Stress, KilledRanksAreNamed) {
  for_seeds(test_size(7, 100), [](std::uint64_t seed) {
    Dice dice(seed);
    const int world_size = 2 + static_cast<int>(dice.below(7));
    run_in_processes({seed, world_size, SIGKILL, static_cast<int>(dice.below(world_size))});
  });
}

TEST_F(Stress, OneKilledOfSixtyFourIsNamed) { run_in_processes({65, 64, SIGKILL, 17, 6}); }

TEST_F(Stress, AStoppedRankIsNamed) { run_in_processes({66, 4, SIGSTOP, 2}); }

}  // namespace
}  // namespace lockstep
