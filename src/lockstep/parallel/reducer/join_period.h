#pragma once

namespace lockstep {

/// The period in which ranks join, that is, run out of inputs one after the other: DistributedDataParallel::join.
class JoinPeriod {
 public:
  /// @param divide_by_active_ranks  add up gradients and divide by the number of ranks that still have inputs
  void begin(bool divide_by_active_ranks) {
    state_ = divide_by_active_ranks ? State::DividesByActiveRanks : State::DividesByAllRanks;
  }
  void end() { state_ = State::Off; }
  bool is_on() const { return state_ != State::Off; }
  bool divides_by_active_ranks() const { return state_ == State::DividesByActiveRanks; }

  /// The lowest rank that still had inputs in the last step.
  int lowest_active_rank() const { return lowest_active_rank_; }
  void set_lowest_active_rank(int rank) { lowest_active_rank_ = rank; }

 private:
  enum class State { Off, DividesByAllRanks, DividesByActiveRanks };

  State state_ = State::Off;
  int lowest_active_rank_ = 0;
};

}  // namespace lockstep
