// A rank whose own loop (lockstep::on_rank_change) makes a mistake. A step adds the number of ranks to a weight.
//   elastic_mistakes MISTAKE
// In step 3, it calls another step (step-in-step), or ends the run (end-in-step), or throws after the update
// (update-fails) or, on rank 1, before it (rank-1-fails); then the program catches the error, prints it and
// continues with the next step. With caught-loss, rank 1 kills itself there, and the other one's step catches the
// failure of its exchange. With step-in-wrap, rank 1 kills itself there, and the function that is called for each
// group calls a step. With late-end, rank 1 kills itself, too, and the process that takes its place ends its loop at
// once.
#include <signal.h>
#include <torch/types.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "lockstep/comm/process_group.h"
#include "lockstep/elastic/on_rank_change.h"
#include "tests/programs/rank_programs.h"

namespace elastic_mistakes {
namespace {

constexpr std::int64_t kSteps = 6, kAtStep = 3;

using Group = std::shared_ptr<lockstep::Communicator>;

// Prints the error that `call` throws.
void show_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

void train(const std::string& mistake) {
  const bool has_joined = std::getenv("LOCKSTEP_MEMBER") != nullptr;
  const bool is_rank_1 = std::string(std::getenv("RANK")) == "1";
  const std::set<std::string> with_death{"step-in-wrap", "late-end", "caught-loss"};
  const bool dies = with_death.count(mistake) != 0 && is_rank_1 && !has_joined;
  const torch::Tensor weight = torch::zeros({1});
  bool has_erred = false;
  std::function<void()> in_wrap = [] {};
  auto run = lockstep::on_rank_change({{weight.requires_grad_()}, {}}, [&](const Group& group) {
    std::exchange(in_wrap, [] {})();
    return group;
  });
  if (mistake == "late-end" && has_joined) return run.finish();

  torch::Tensor memory;  // of the group
  const lockstep::Communicator* memory_of = nullptr;
  const auto add = [&](const Group& group) {
    const torch::Tensor ranks = torch::ones({1});
    group->all_reduce(ranks);
    const torch::NoGradGuard no_grad;
    weight.add_(ranks);
  };
  const std::function<void(Group&)> step = [&](Group& group) {
    if (memory_of != group.get()) memory = group->allocate({1}, torch::kFloat);
    memory_of = group.get();
    const bool errs = run.step() == kAtStep && !has_erred;
    has_erred = has_erred || errs;
    if (errs && dies) ::raise(SIGKILL);
    if (errs && mistake == "step-in-step") run.make_step(step);
    if (errs && mistake == "end-in-step") run.finish();
    if (errs && mistake == "rank-1-fails" && is_rank_1) throw std::runtime_error("no samples");
    mistake == "caught-loss" ? show_error([&] { add(group); }) : add(group);
    if (errs && mistake == "update-fails") throw std::runtime_error("no room for a log");
  };
  if (mistake == "step-in-wrap") in_wrap = [&] { run.make_step(step); };
  while (run.step() < kAtStep) run.make_step(step);
  if (mistake != "late-end") show_error([&] { run.make_step(step); });
  const auto may_go_on = [&] { return mistake == "late-end" || run.step() < kSteps; };
  while (may_go_on()) run.make_step(step);
  run.finish();
  std::printf("weight %g\n", weight.item<double>());
}

}  // namespace
}  // namespace elastic_mistakes

int run_elastic_mistakes(int /*count*/, char** words) {
  using namespace elastic_mistakes;
  try {
    train(words[1]);
    lockstep::destroy_process_group();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
