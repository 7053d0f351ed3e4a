#include "tools/lockstep/train/training_outlook.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <vector>

namespace lockstep {
namespace {

// Runs `steps` updates of `seconds` each by a clock that only the test moves, and returns the lines that were said.
// @param of_another  so many of them are ended by another first rank, which is lost then
std::vector<std::string> said_after(int steps, double seconds, std::int64_t max_steps, std::int64_t done = 0,
                                    int of_another = 0) {
  TrainingOutlook::Clock::time_point now{std::chrono::hours(11)};
  std::vector<std::string> lines;
  const auto say = [&](const std::string& line) { lines.push_back(line); };
  TrainingOutlook outlook(nullptr, say, [&] { return now; });
  const TrainingArguments args;
  TrainerState state;
  TrainerControl control;
  state.max_steps = max_steps;
  state.global_step = done;
  TrainerEvent event{args, state, control, nullptr, {}};
  outlook.on_train_begin(event);
  for (int i = 0; i < steps; ++i) {
    now += std::chrono::duration_cast<TrainingOutlook::Clock::duration>(std::chrono::duration<double>(seconds));
    ++state.global_step;
    state.is_world_process_zero = i >= of_another;
    outlook.on_step_end(event);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(TrainingOutlook, SaysOnceHowLongTheRestTakes) {
  EXPECT_EQ(said_after(10, 1, 1000), Lines{});  // ten updates are not measured yet: the first one is left out
  EXPECT_EQ(said_after(50, 1, 1011), (Lines{"About 16 min 40 s to go: 1000 updates of 1 s, and evaluations"}));
  EXPECT_EQ(said_after(50, 1, 1511, 500), (Lines{"About 16 min 40 s to go: 1000 updates of 1 s, and evaluations"}));
  EXPECT_EQ(said_after(50, 1, 60), Lines{}) << "less than a minute";
  EXPECT_EQ(said_after(50, 0.2, 100000), (Lines{"About 5 h 33 min to go: 99974 updates of 0.2 s, and evaluations"}))
      << "after five seconds";
}

TEST(TrainingOutlook, MeasuresFromWhereThisRankBecameTheFirst) {
  EXPECT_EQ(said_after(111, 1, 1111, 0, 100), (Lines{"About 16 min 40 s to go: 1000 updates of 1 s, and evaluations"}));
  EXPECT_EQ(said_after(110, 1, 1111, 0, 100), Lines{});
  EXPECT_EQ(said_after(11, 250, 23), (Lines{"About 50 min 0 s to go: 12 updates of 250 s, and evaluations"}));
}

TEST(TrainingOutlook, SaysWhatIsAboutToBegin) {
  ::unsetenv("ACCELERATE_MIXED_PRECISION");
  TrainingArguments args;
  args.gradient_accumulation_steps = 2;
  args.bf16 = true;
  TrainerState state;
  state.train_batch_size = 8;
  state.max_steps = 120;
  const std::string text = training_start_text(args, state);
  EXPECT_EQ(text.find("one process, "), 0U) << text;
  EXPECT_NE(text.find(", bf16: 120 updates of 16 samples"), std::string::npos) << text;
  state.global_step = 20;
  EXPECT_NE(training_start_text(args, state).find(", 20 of them done"), std::string::npos);
}

TEST(TrainingOutlook, CountsTheSamplesOfAllVirtualShards) {
  TrainingArguments args;
  args.virtual_shards = 4;
  TrainerState state;
  state.train_batch_size = 8;
  state.max_steps = 120;
  const std::string text = training_start_text(args, state);
  EXPECT_NE(text.find(": 120 updates of 32 samples"), std::string::npos) << text;
}

TEST(TrainingOutlook, WritesTimesAsPeopleDo) {
  EXPECT_EQ(time_text(45.4), "45 s");
  EXPECT_EQ(time_text(200), "3 min 20 s");
  EXPECT_EQ(time_text(7500), "2 h 5 min");
}

}  // namespace
}  // namespace lockstep
