#include "lockstep/parallel/fused/recovery/update_meeting.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "lockstep/comm/broadcast_text.h"

namespace lockstep {
namespace {

std::string note_text(const UpdateNote& note) {
  std::string text(2 * sizeof(double), '\0');
  std::memcpy(text.data(), &note.factor, sizeof(double));
  std::memcpy(text.data() + sizeof(double), &note.norm, sizeof(double));
  return text.append(note.contributed.begin(), note.contributed.end());
}

UpdateNote note_of(const std::string& text) {
  UpdateNote note;
  std::memcpy(&note.factor, text.data(), sizeof(double));
  std::memcpy(&note.norm, text.data() + sizeof(double), sizeof(double));
  note.contributed.assign(text.begin() + 2 * sizeof(double), text.end());
  return note;
}

std::vector<StepReport> gather_reports(Communicator& group, const StepReport& own) {
  const auto longs = at::TensorOptions().dtype(at::kLong);
  at::Tensor all = at::tensor({static_cast<std::int64_t>(own.number), std::int64_t{own.has_note ? 1 : 0}}, longs);
  if (group.world_size() > 1) {
    const at::Tensor mine = all;
    all = at::empty({2 * group.world_size()}, longs);
    group.all_gather(all, mine);
  }
  std::vector<StepReport> reports;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const std::int64_t* const of_rank = all.data_ptr<std::int64_t>() + 2 * rank;
    reports.push_back({static_cast<std::uint64_t>(of_rank[0]), of_rank[1] != 0});
  }
  return reports;
}

}  // namespace

MeetingPlan plan_meeting(const std::vector<StepReport>& reports) {
  MeetingPlan plan;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (!reports[rank].has_note) continue;
    plan.any_decided = true;
    const bool others_need_it = std::any_of(reports.begin(), reports.end(), [&](const StepReport& other) {
      return other.number == reports[rank].number && !other.has_note;
    });
    if (!others_need_it || plan.source >= 0) continue;
    plan.source = static_cast<int>(rank);
    plan.number = reports[rank].number;
  }
  return plan;
}

bool meet_after_loss(Communicator& group, InterruptedUpdate* update) {
  StepReport own;
  std::optional<UpdateNote> note;
  if (update != nullptr) {
    note = update->note();
    own = {update->number(), note.has_value()};
  }
  const MeetingPlan plan = plan_meeting(gather_reports(group, own));
  if (!plan.any_decided) return false;
  if (plan.source >= 0) {
    const std::string text = broadcast_text(group, group.rank() == plan.source ? note_text(*note) : "", plan.source);
    if (update != nullptr && !note && own.number == plan.number) {
      update->take(note_of(text));
      own.has_note = true;
    }
  }
  if (own.has_note) update->finish();
  if (group.world_size() > 1) group.barrier();
  return own.has_note;
}

}  // namespace lockstep
