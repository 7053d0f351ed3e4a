// Explores every order in which ranks of several hosts can go through updates, lose each other and meet, with the
// decision that they use. A rank may be killed between any two steps; a collective that all members have entered
// succeeds on some of them and fails on others.
//
// Seen to fail with each of the faults below.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "lockstep/parallel/fused/recovery/update_meeting.h"
#include "tests/parallel/fused/survival/update_meeting_model.h"

namespace lockstep::meeting_model {
namespace {

class Explorer {
 public:
  explicit Explorer(Fault fault) : fault_(fault) {}

  std::string explore(Model model) {
    model.members = {(1U << static_cast<unsigned>(model.ranks)) - 1};
    visit(model);
    return failure_;
  }
  std::size_t states() const { return seen_.size(); }

 private:
  void expect(bool holds, const char* what) {
    if (!holds && failure_.empty()) failure_ = what;
  }

  void visit(const Model& model) {
    if (!failure_.empty() || !seen_.insert(model.key()).second) return;
    std::vector<Model> after;
    for (int r = 0; r < model.ranks; ++r) add_steps(model, r, after);
    add_group(model, after);
    if (after.empty()) check_end(model);
    for (int r = 0; r < model.ranks && model.kills_left > 0; ++r) {
      if (model.of(r).at == At::Dead || model.of(r).at == At::Ended) continue;
      after.push_back(model);
      after.back().of(r).at = At::Dead;
      --after.back().kills_left;
    }
    for (const Model& next : after) visit(next);
  }

  void check_end(const Model& model) {
    for (int r = 0; r < model.ranks; ++r) {
      const ModelRank& it = model.of(r);
      if (it.at == At::Dead) continue;
      expect(it.at == At::Ended, "a rank waits forever");
      expect(it.updates == kUpdates, "a rank has counted another number of updates");
      for (int part = 0; part < model.ranks; ++part) {
        if (model.host[static_cast<std::size_t>(part)] != model.host[static_cast<std::size_t>(r)]) continue;
        expect(model.of(part).written == kUpdates, "a part of a host's memory lacks an update");
      }
    }
  }

  // All that live have left the newest group, and one of its members is dead: they form the next one.
  static void add_group(const Model& model, std::vector<Model>& after) {
    unsigned next = 0;
    bool any_dead = false;
    for (int r = 0; r < model.ranks; ++r) {
      if (!model.is_member(r)) continue;
      any_dead = any_dead || model.of(r).at == At::Dead;
      if (model.of(r).at == At::Dead || model.of(r).at == At::Ended) continue;
      if (model.of(r).at != At::Left) return;
      next |= 1U << static_cast<unsigned>(r);
    }
    if (next == 0 || !any_dead) return;
    after.push_back(model);
    Model& now = after.back();
    now.members.push_back(next);
    now.kinds.clear();
    for (int r = 0; r < model.ranks; ++r) {
      if (!now.is_member(r)) continue;
      now.of(r).at = At::Meet;
      now.of(r).calls = 0;
      now.of(r).group = static_cast<int>(now.members.size()) - 1;
    }
  }

  void enter(Model model, int r, char kind, At at, std::vector<Model>& after) {
    ModelRank& self = model.of(r);
    if (static_cast<std::size_t>(self.calls) == model.kinds.size()) model.kinds += kind;
    expect(model.kinds[static_cast<std::size_t>(self.calls)] == kind, "the ranks make different calls");
    ++self.calls;
    self.at = at;
    after.push_back(std::move(model));
  }

  // A rank in a collective: it may succeed if all have entered it, and fail if one is dead or has left.
  static bool all_entered(const Model& model, int calls) {
    for (int r = 0; r < model.ranks; ++r) {
      if (model.is_member(r) && model.of(r).calls < calls) return false;
    }
    return true;
  }
  static void add_failure(const Model& model, int r, bool is_in_step, std::vector<Model>& after) {
    for (int other = 0; other < model.ranks; ++other) {
      const bool is_gone = model.of(other).at == At::Dead || model.of(other).at == At::Left;
      if (!model.is_member(other) || !is_gone) continue;
      after.push_back(model);
      after.back().of(r).at = At::Left;
      after.back().of(r).is_in_step = is_in_step;
      return;
    }
  }

  bool host_has_note(const Model& model, int r) const {
    for (int other = 0; other < model.ranks; ++other) {
      const bool is_seen = fault_ == Fault::DecidesBySelf
                               ? other == r
                               : model.host[static_cast<std::size_t>(other)] == model.host[static_cast<std::size_t>(r)];
      if (is_seen && model.of(other).note == model.of(r).updates + 1) return true;
    }
    return false;
  }

  // @param mends  what an interrupted update has left
  void write(Model& model, int part, int number, bool mends) {
    ModelRank& it = model.of(part);
    expect(it.written == number || it.written == number - 1, "a part gets an update out of turn");
    const int group = static_cast<int>(model.members.size()) - 1;
    expect(it.written != number || mends || it.written_in == group, "a part gets an update twice");
    it.written = number;
    it.written_in = group;
  }

  void add_steps(const Model& model, int r, std::vector<Model>& after) {
    const ModelRank& self = model.of(r);
    const auto succeed = [&](At at) -> Model* {
      if (!all_entered(model, self.calls)) return nullptr;
      after.push_back(model);
      after.back().of(r).at = at;
      return &after.back();
    };
    switch (self.at) {
      case At::Gradients:
        return enter(model, r, 'g', At::InGradients, after);
      case At::InGradients:
        succeed(At::Norm);
        return add_failure(model, r, false, after);
      case At::Norm:
        return enter(model, r, 'n', fault_ == Fault::DecidesEarly ? At::Note : At::InNorm, after);
      case At::InNorm:
        succeed(At::Note);
        return add_failure(model, r, true, after);
      case At::Note:
        after.push_back(model);
        after.back().of(r).note = self.updates + 1;
        after.back().of(r).at = At::Write;
        return;
      case At::Write:
        after.push_back(model);
        write_parts(after.back(), r, false);
        after.back().of(r).at = At::Finish;
        return;
      case At::Finish:
        return enter(model, r, 'f', At::InFinish, after);
      case At::InFinish:
        if (Model* const next = succeed(At::Gradients)) end_update(*next, r);
        return add_failure(model, r, true, after);
      case At::Done:
        return enter(model, r, 'd', At::InDone, after);
      case At::InDone:
        succeed(At::Ended);
        return add_failure(model, r, false, after);
      case At::Meet: {
        Model next = model;
        ModelRank& it = next.of(r);
        it.report = {};
        if (self.is_in_step) it.report = {static_cast<std::uint64_t>(self.updates) + 1, host_has_note(model, r)};
        return enter(std::move(next), r, 'm', At::InMeet, after);
      }
      case At::InMeet:
        if (Model* const next = succeed(At::Mend)) act_on(*next, r);
        return add_failure(model, r, self.is_in_step, after);
      case At::InTold:
        if (Model* const next = succeed(At::Mend)) take_note(*next, r);
        return add_failure(model, r, self.is_in_step, after);
      case At::Mend: {
        Model next = model;
        if (self.finishes) write_parts(next, r, true);
        if (fault_ == Fault::EndsAlone && self.finishes) end_update(next, r);
        return enter(std::move(next), r, 'e', At::InMended, after);
      }
      case At::InMended:
        if (Model* const next = succeed(At::Gradients)) continue_after(*next, r);
        return add_failure(model, r, self.is_in_step, after);
      case At::Left:
      case At::Ended:
      case At::Dead:
        return;
    }
  }

  static void end_update(Model& model, int r) {
    ++model.of(r).updates;
    model.of(r).is_in_step = false;
    model.of(r).at = model.of(r).updates == kUpdates ? At::Done : At::Gradients;
  }

  MeetingPlan plan_of(const Model& model) const {
    std::vector<StepReport> reports;
    for (int r = 0; r < model.ranks; ++r) reports.push_back(model.is_member(r) ? model.of(r).report : StepReport());
    return plan_meeting(reports);
  }

  void act_on(Model& model, int r) {
    ModelRank& self = model.of(r);
    const MeetingPlan plan = plan_of(model);
    self.finishes = self.report.has_note;
    if (!plan.any_decided) return continue_after(model, r);
    if (plan.source < 0 || fault_ == Fault::MeetsOnce) return;
    expect(model.kinds.size() == static_cast<std::size_t>(self.calls) || model.kinds[self.calls] == 't',
           "the ranks make different calls");
    if (model.kinds.size() == static_cast<std::size_t>(self.calls)) model.kinds += 't';
    ++self.calls;
    self.at = At::InTold;
  }

  void take_note(Model& model, int r) {
    ModelRank& self = model.of(r);
    if (self.report.number != plan_of(model).number || self.report.has_note) return;
    self.note = self.updates + 1;
    self.finishes = true;
  }

  // This rank's part, and the parts of ranks that were lost.
  void write_parts(Model& model, int r, bool mends) {
    const int number = model.of(r).updates + 1;
    for (int part = 0; part < model.ranks; ++part) {
      const bool is_here = model.host[static_cast<std::size_t>(part)] == model.host[static_cast<std::size_t>(r)];
      if (part == r || (is_here && !model.is_member(part))) write(model, part, number, mends);
    }
  }

  void continue_after(Model& model, int r) {
    ModelRank& self = model.of(r);
    const bool is_made = self.finishes && fault_ != Fault::EndsAlone;
    self.finishes = self.is_in_step = false;
    self.at = self.updates == kUpdates ? At::Done : At::Gradients;
    if (is_made) end_update(model, r);
  }

  const Fault fault_;
  std::set<std::string> seen_;
  std::string failure_;
};

Model on_hosts_of(const std::vector<int>& ranks, int kills) {
  Model model;
  for (std::size_t host = 0; host < ranks.size(); ++host) {
    for (int k = 0; k < ranks[host]; ++k) model.host[static_cast<std::size_t>(model.ranks++)] = static_cast<int>(host);
  }
  model.kills_left = kills;
  return model;
}

std::string failure_with(Fault fault, const std::vector<int>& ranks, int kills) {
  Explorer explorer(fault);
  const std::string failure = explorer.explore(on_hosts_of(ranks, kills));
  ::testing::Test::RecordProperty("states", std::to_string(explorer.states()));
  return failure;
}

TEST(UpdateMeetingModel, EachUpdateReachesEachHostOnce) {
  EXPECT_EQ(failure_with(Fault::None, {1, 1}, 1), "");
  EXPECT_EQ(failure_with(Fault::None, {2, 1}, 2), "");
  EXPECT_EQ(failure_with(Fault::None, {1, 1, 1}, 2), "");
  EXPECT_EQ(failure_with(Fault::None, {2, 2}, 1), "");
}

TEST(UpdateMeetingModel, FindsEachFault) {
  for (const Fault fault : {Fault::DecidesBySelf, Fault::DecidesEarly, Fault::MeetsOnce, Fault::EndsAlone}) {
    EXPECT_NE(failure_with(fault, {2, 1}, 2) + failure_with(fault, {1, 1, 1}, 2), "") << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace lockstep::meeting_model
