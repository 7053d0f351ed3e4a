// lockstep-failures: lets a rank fail in several ways on every engine, and prints docs/failures.md: what the other
// ranks saw, and how long it took them.
//   lockstep-failures > docs/failures.md
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/support/mpi_places.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

constexpr int kRanks = 4;
constexpr int kFailing = 3;
constexpr std::chrono::milliseconds kTimeout{3000};

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Fault {
  const char* name;
  std::function<void(Communicator&)> happens;  ///< what the failing rank does after five good steps
  bool returns;                                ///< it leaves in good order afterwards
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"is killed (SIGKILL)", [](Communicator&) { ::raise(SIGKILL); }, false},
      {"throws an exception", [](Communicator&) { throw std::runtime_error("the sixth batch is broken"); }, false},
      {"stands still (SIGSTOP)", [](Communicator&) { ::raise(SIGSTOP); }, false},
      {"leaves the loop early", [](Communicator&) {}, true},
      {"calls with another count",
       [](Communicator& group) {
         at::Tensor tensor = at::ones({1001});
         group.all_reduce(tensor);
       },
       false},
      {"calls another collective", [](Communicator& group) { group.barrier(); }, false},
  };
  return all;
}

// What rank 0 saw, and after how many seconds the last of the others did.
struct Sight {
  std::string text;
  double seconds = 0;
};

void take_steps(const Membership& membership, const std::string& engine, const Fault& fault) {
  const auto group = make_communicator(engine, engine == "hierarchical" ? on_two_hosts(membership) : membership);
  const std::string begun = "fault/begun";
  try {
    for (int step = 0;; ++step) {
      if (step == 5 && group->rank() == kFailing) {
        membership.store->set(begun, std::to_string(now_us()));
        fault.happens(*group);
        if (fault.returns) return;
      }
      at::Tensor tensor = at::ones({1000});
      group->all_reduce(tensor);
    }
  } catch (const Error& error) {
    const std::int64_t seen = now_us();
    const std::int64_t since = std::stoll(membership.store->get(begun, Deadline::after(kTimeout)));
    throw std::runtime_error(fmt::format("{} {}", seen - since, error.happened()));
  }
}

std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') line += " /";
    if (c == '\n' || (c == ' ' && !line.empty() && line.back() == ' ')) continue;
    if (c == '|') line += '\\';
    line += c;
  }
  return line;
}

Sight try_out(const std::string& engine, const Fault& fault) {
  RanksOptions options;
  options.timeout = kTimeout;
  options.mpi = engine == "mpi";
  const auto ends = ranks_as_processes(
      kRanks, [&](const Membership& membership) { take_steps(membership, engine, fault); }, options);
  Sight sight;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kFailing) continue;
    const std::string& text = ends[static_cast<std::size_t>(rank)].text;
    const std::size_t space = text.find(' ');
    if (!ends[static_cast<std::size_t>(rank)].failed || space == std::string::npos) {
      sight.text += fmt::format("rank {} saw nothing; ", rank);
      continue;
    }
    sight.seconds = std::max(sight.seconds, std::stod(text.substr(0, space)) / 1e6);
    if (rank == 0) sight.text = one_line(text.substr(space + 1));
  }
  return sight;
}

void print_page() {
  fmt::print(
      "# What ranks see when another one fails\n\n"
      "Made by `lockstep-failures`: {} ranks sum 1000 floats again and again; after five steps rank {} fails. "
      "`hierarchical`\n"
      "runs over `tcp` on two pretended hosts of two ranks each, `mpi` under `mpirun --enable-recovery`. The timeout "
      "is {} s\n"
      "here (default: 30 minutes); only a rank that stands still makes the others wait for it. The text is the first "
      "line of "
      "the\n"
      "exception on rank 0; the time is that of the last of the three other ranks, from the fault on.\n\n"
      "Plain `mpirun` ends all ranks by itself as soon as one dies: its own message names that rank then.\n\n"
      "What becomes of the job when a whole host is lost, or comes back, stands with the launcher: "
      "[hosts that come and go](reference/run.md#hosts-that-come-and-go).\n\n"
      "| rank {} | engine | the others see | after s |\n|---|---|---|---|\n",
      kRanks, kFailing, kTimeout.count() / 1000, kFailing);
  for (const Fault& fault : faults()) {
    for (const Engine& engine : available_engines()) {
      const std::string name = engine.name;
      if (engine.device != c10::DeviceType::CPU) continue;
      if (!engine.across_processes || (name == "mpi" && MpiPlaces::why_not())) continue;
      const Sight sight = try_out(name, fault);
      fmt::print("| {} | {} | {} | {:.2f} |\n", fault.name, name, sight.text, sight.seconds);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace lockstep

int main() {
  try {
    lockstep::print_page();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-failures: %s\n", error.what());
    return 1;
  }
}
