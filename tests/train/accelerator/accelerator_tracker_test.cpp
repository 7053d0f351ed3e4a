// Tests that an Accelerator's logs reach TensorBoard's file and metrics.jsonl, from the main process only.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/comm/factory.h"
#include "lockstep/seeing/report_data.h"
#include "lockstep/train/accelerator.h"
#include "tests/data/python_program.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

void log_on_two_ranks(const std::string& folder, const std::vector<std::string>& log_with) {
  run_ranks_as_threads(2, [&](const Membership& membership) {
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("thread", membership);
    options.log_with = log_with;
    options.project_config.logging_dir = folder;
    Accelerator accelerator(options);
    accelerator.init_trackers("digits", {{"lr", 0.5}, {"model", "convnet"}});
    accelerator.log({{"train_loss", 0.75}, {"rank", static_cast<double>(membership.rank)}}, 10);
    accelerator.log({{"train_loss", 0.5}});
    // By name on every rank; on other ranks the tracker does nothing.
    Tracker& tracker = accelerator.get_tracker(log_with.front() == "all" ? "json" : log_with.front());
    EXPECT_EQ(tracker.name().empty(), membership.rank != 0);
    tracker.log({}, 11);
    EXPECT_THROW(accelerator.get_tracker("wandb"), Error);
    accelerator.end_training();
  });
}

TEST(Trackers, JsonHasEachLogOnce) {
  const TemporaryFolder folder;
  log_on_two_ranks(folder.path(), {"json"});
  std::istringstream lines(read_file(folder / "digits/metrics.jsonl"));
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) {
    objects.push_back(nlohmann::json::parse(line));
    objects.back().erase("time");
  }
  EXPECT_EQ(objects, (std::vector<nlohmann::json>{
                         {{"kind", "start"}, {"step", 0}, {"arguments", {{"lr", 0.5}, {"model", "convnet"}}}},
                         {{"kind", "log"}, {"step", 10}, {"train_loss", 0.75}, {"rank", 0.0}},
                         {{"kind", "log"}, {"step", 11}, {"train_loss", 0.5}},
                         {{"kind", "log"}, {"step", 11}},
                         {{"kind", "end"}, {"step", 11}}}));
  EXPECT_FALSE(read_report_data(folder / "digits").logs.empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "digits"), {}), 1);
}

// Uses TensorBoard's own reader, if a Python in PATH has it.
TEST(Trackers, TensorBoardReadsThemUnderTheirOwnNames) {
  const TemporaryFolder folder;
  log_on_two_ranks(folder.path(), {"all", "tensorboard"});
  EXPECT_EQ(read_file(folder / "digits/hparams.yml"), "lr: 0.5\nmodel: \"convnet\"\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "digits"), {}), 3);  // one of each kind
  const std::string output = run_python(R"(
import json
from tensorboard.backend.event_processing import event_accumulator
events = event_accumulator.EventAccumulator(')" +
                                        folder.path() + R"(/digits')
events.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()['scalars']}))
)");
  if (output.empty()) GTEST_SKIP() << "no Python on the PATH has tensorboard";
  EXPECT_EQ(nlohmann::json::parse(output),
            nlohmann::json::parse(R"({"train_loss": [[10, 0.75], [11, 0.5]], "rank": [[10, 0.0]]})"));
}

std::string tracker_error(const AcceleratorOptions& options) {
  try {
    Accelerator accelerator(options);
    accelerator.init_trackers("run");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Trackers, SayWhatIsMissing) {
  AcceleratorOptions options;
  options.ddp.process_group = make_communicator("", {});
  EXPECT_NE(tracker_error(options).find("log_with names no tracker"), std::string::npos);
  options.log_with = {"tensorboard"};
  EXPECT_NE(tracker_error(options).find("requires a logging_dir"), std::string::npos);
  options.log_with = {"wandb"};
  EXPECT_NE(tracker_error(options).find("use tensorboard, json or all"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
