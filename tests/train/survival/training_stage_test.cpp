#include "lockstep/train/survival/training_stage.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

// The stages of a training of `epochs` epochs with `updates` each.
std::vector<Stage> stages_of(int epochs, int updates) {
  std::vector<Stage> stages;
  int epoch = 0, update = 0;
  bool epoch_ended = false;
  for (Stage stage = Stage::Begin; stage != Stage::Done && stages.size() < 200;) {
    stages.push_back(stage);
    if (stage == Stage::Update) ++update;
    if (stage == Stage::EpochControl) epoch_ended = true;
    if (stage == Stage::EpochNext) {
      epoch_ended = false;
      update = 0;
      ++epoch;
    }
    const bool stops = epoch * updates + update >= epochs * updates;
    stage = stage_after(stage, {stops, false, update >= updates, epoch_ended});
  }
  return stages;
}

TEST(TrainingStage, FollowsTheLoopOverEpochsAndUpdates) {
  using S = Stage;
  const std::vector<Stage> update{S::Update, S::Control, S::Log, S::Evaluate, S::EvaluateControl, S::Save};
  const std::vector<Stage> end{S::EpochEnd,        S::EpochControl, S::Log,      S::Evaluate,
                               S::EvaluateControl, S::Save,         S::EpochNext};
  std::vector<Stage> want{S::Begin};
  for (int epoch = 0; epoch < 2; ++epoch) {
    want.push_back(S::EpochBegin);
    for (int i = 0; i < 2; ++i) want.insert(want.end(), update.begin(), update.end());
    want.insert(want.end(), end.begin(), end.end());
  }
  want.insert(want.end(), {S::Finish, S::LoadBest});
  EXPECT_EQ(stages_of(2, 2), want);
}

TEST(TrainingStage, ASignalEndsTheTrainingWithoutTheEndOfItsEpoch) {
  EXPECT_EQ(stage_after(Stage::Save, {true, true, false, false}), Stage::Finish);
  EXPECT_EQ(stage_after(Stage::Save, {true, false, false, false}), Stage::EpochEnd);
}

TEST(TrainingStage, ATrainingThatHasNothingToDoEndsAtOnce) {
  EXPECT_EQ(stage_after(Stage::Begin, {true, false, false, false}), Stage::Finish);
}

}  // namespace
}  // namespace lockstep
