// What a training will do and how long it will take, for a person.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// Rank 0 says at the start on how many ranks, through which engine, in which precision and for how many updates the
/// training goes; and, once the time of an update is known, how long the rest takes if that is more than a minute.
class TrainingOutlook : public TrainerCallback {
 public:
  using Clock = std::chrono::steady_clock;
  using Say = std::function<void(const std::string& line)>;

  /// @param say_start, say_time  get the two lines; empty: the line is left out
  /// @param now  for tests
  TrainingOutlook(Say say_start, Say say_time, std::function<Clock::time_point()> now = Clock::now)
      : say_start_(std::move(say_start)), say_time_(std::move(say_time)), now_(std::move(now)) {}

  void on_train_begin(TrainerEvent& event) override;
  void on_step_end(TrainerEvent& event) override;

 private:
  Say say_start_;
  Say say_time_;
  std::function<Clock::time_point()> now_;
  // The first update that this process ends as the first rank is left out, because it is slower.
  std::int64_t first_step_ = 0;
  std::optional<Clock::time_point> first_end_;
};

/// "2 ranks, engine shm, 1 thread each, fp32: 120 updates of 32 samples"
std::string training_start_text(const TrainingArguments& args, const TrainerState& state);

/// "45 s", "3 min 20 s", "2 h 5 min"
std::string time_text(double seconds);

}  // namespace lockstep
