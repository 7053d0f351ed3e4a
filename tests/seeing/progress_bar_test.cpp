#include "lockstep/seeing/progress_bar.h"

#include <gtest/gtest.h>

#include "lockstep/train/progress_callback.h"
#include "tests/seeing/seeing_events.h"

namespace lockstep {
namespace {

struct BarCase {
  const char* name;
  MeterLine line;
  const char* want;
  friend std::ostream& operator<<(std::ostream& out, const BarCase& c) { return out << c.name; }
};

class MeterLines : public ::testing::TestWithParam<BarCase> {};

TEST_P(MeterLines, AreThoseOfTqdm) { EXPECT_EQ(meter_line(GetParam().line), GetParam().want); }

// The results of tqdm 4.67's format_meter for the same arguments.
INSTANTIATE_TEST_SUITE_P(
    Table, MeterLines,
    ::testing::Values(
        BarCase{"nothing_yet", {0, 64, 0, 0, 60}, "  0%|                                | 0/64 [00:00<?, ?it/s]"},
        BarCase{"a_quarter", {16, 64, 12, 0, 60}, " 25%|█████▊                 | 16/64 [00:12<00:36,  1.33it/s]"},
        BarCase{"all_of_it",
                {64, 64, 3725.4, 0, 80},
                "100%|█████████████████████████████████████████| 64/64 [1:02:05<00:00, 58.21s/it]"},
        BarCase{"slow", {1, 3, 4, 0.25, 50}, " 33%|█████          | 1/3 [00:04<00:08,  4.00s/it]"},
        BarCase{
            "fast", {5, 10, 2, 123.456, 70}, " 50%|████████████████▌                | 5/10 [00:02<00:00, 123.46it/s]"},
        BarCase{"total_not_known", {7, -1, 3}, "7it [00:03,  2.33it/s]"},
        BarCase{"width_not_known", {333, 1000, 61}, " 33%|███▎      | 333/1000 [01:01<02:02,  5.46it/s]"},
        BarCase{"too_narrow", {3, 10, 1, 0, 40, "Evaluating: "}, "Evaluating:  30%|▎| 3/10 [00:01<00:02,  "},
        BarCase{"much_too_narrow", {3, 10, 1, 0, 12}, " 30%|▎| 3/10"},
        BarCase{"more_than_all", {12, 10, 1, 0, 60}, "12it [00:01, 12.00it/s]"},
        BarCase{"long_waits",
                {1, 100000, 90000, 0, 80},
                "  0%|                          | 1/100000 [25:00:00<2499975:00:00, 90000.00s/it]"},
        BarCase{"half_rounds_to_even", {1, 8, 1, 0, 45}, " 12%|█▎        | 1/8 [00:01<00:07,  1.00it/s]"}),
    [](const auto& test) { return test.param.name; });

// A bar whose clock and terminal the test controls.
struct BarStage {
  double now = 100;
  std::string written;

  ProgressBarOptions options(int columns, std::int64_t total) {
    ProgressBarOptions made;
    made.total = total;
    made.columns = columns;
    made.write = [this](std::string_view text) { written += text; };
    made.now_s = [this] { return now; };
    return made;
  }
};

TEST(ProgressBar, IsDrawnOverOnATerminalAtMostTenTimesASecond) {
  BarStage stage;
  {
    ProgressBar bar(stage.options(40, 10));
    EXPECT_EQ(stage.written, "\r  0%|            | 0/10 [00:00<?, ?it/s]\033[K");
    stage.written.clear();
    stage.now += 0.05;
    bar.set_done(1);
    EXPECT_EQ(stage.written, "");
    stage.now += 1.95;
    bar.set_done(4);
    EXPECT_EQ(stage.written, "\r 40%|█▌  | 4/10 [00:02<00:03,  2.00it/s]\033[K");
    stage.written.clear();
    bar.write_above([&] { stage.written += "a line\n"; });
    EXPECT_EQ(stage.written.substr(0, 14), "\r\033[Ka line\n\r 4");
    stage.now += 2;
    bar.set_done(10);
    stage.written.clear();
  }
  EXPECT_EQ(stage.written, "\r100%|███| 10/10 [00:04<00:00,  2.50it/s]\033[K\n");
}

TEST(ProgressBar, IsALineNowAndThenInALogFile) {
  BarStage stage;
  {
    ProgressBar bar(stage.options(0, 100));
    EXPECT_EQ(stage.written, "");
    for (int second = 1; second <= 25; ++second) {
      stage.now += 1;
      bar.set_done(4 * second);
    }
    bar.write_above([&] { stage.written += "a line\n"; });
  }
  EXPECT_EQ(stage.written,
            " 40%|████      | 40/100 [00:10<00:15,  4.00it/s]\n"
            " 80%|████████  | 80/100 [00:20<00:05,  4.00it/s]\n"
            "a line\n"
            "100%|██████████| 100/100 [00:25<00:00,  4.00it/s]\n");
}

TEST(ProgressBar, CountsOnlyItsOwnForTheSpeed) {
  BarStage stage;
  ProgressBarOptions options = stage.options(0, 100);
  options.done = 50;
  ProgressBar bar(options);
  stage.now += 10;
  bar.set_done(60);
  EXPECT_EQ(stage.written, " 60%|██████    | 60/100 [00:10<00:40,  1.00it/s]\n");
}

TEST(ProgressBar, GoesAwayWithoutALineWhereItIsNotToStay) {
  BarStage stage;
  ProgressBarOptions options = stage.options(40, 3);
  options.leave = false;
  ProgressBar(options).close();
  EXPECT_EQ(stage.written.substr(stage.written.size() - 4), "\r\033[K");
}

TEST(ProgressCallback, ShowsLogsAboveTheBarOnRankZeroAlone) {
  for (const bool is_zero : {true, false}) {
    BarStage stage;
    TrainerState state;
    state.max_steps = 4;
    state.is_world_process_zero = is_zero;
    ProgressCallback callback([&](const std::string& line) { stage.written += line + "\n"; }, stage.options(60, -1));
    play_training(callback, {}, state, 4, 2);
    if (!is_zero) {
      EXPECT_EQ(stage.written, "");
      continue;
    }
    EXPECT_NE(stage.written.find("\r\033[K{'loss': 0.5, 'learning_rate': 0.002, 'epoch': 0.2}\n\r"), std::string::npos)
        << stage.written;
    EXPECT_NE(stage.written.find("| 4/4 ["), std::string::npos);
    EXPECT_NE(stage.written.find("Evaluating:   0%|"), std::string::npos) << stage.written;
  }
}

}  // namespace
}  // namespace lockstep
