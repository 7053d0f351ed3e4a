#include "lockstep/train/survival/training_stage.h"

namespace lockstep {
namespace {

Stage in_epoch(const StageView& now) {
  if (!now.epoch_is_done && !now.stops) return Stage::Update;
  return now.stop_was_asked ? Stage::Finish : Stage::EpochEnd;
}

}  // namespace

Stage stage_after(Stage stage, const StageView& now) {
  switch (stage) {
    case Stage::Begin:
    case Stage::EpochNext:
      return now.stops ? Stage::Finish : Stage::EpochBegin;
    case Stage::EpochBegin:
      return in_epoch(now);
    case Stage::Update:
      return Stage::Control;
    case Stage::Control:
    case Stage::EpochControl:
      return Stage::Log;
    case Stage::Log:
      return Stage::Evaluate;
    case Stage::Evaluate:
      return Stage::EvaluateControl;
    case Stage::EvaluateControl:
      return Stage::Save;
    case Stage::Save:
      return now.epoch_ended ? Stage::EpochNext : in_epoch(now);
    case Stage::EpochEnd:
      return Stage::EpochControl;
    case Stage::Finish:
      return Stage::LoadBest;
    case Stage::LoadBest:
    case Stage::Done:
      break;
  }
  return Stage::Done;
}

}  // namespace lockstep
