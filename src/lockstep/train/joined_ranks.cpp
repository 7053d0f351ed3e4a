#include "lockstep/train/joined_ranks.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/net/worlds/enter_job.h"
#include "lockstep/train/survival/survival.h"

namespace lockstep {
namespace {

std::optional<std::chrono::milliseconds> timeout_in(const TrainingArguments& args) {
  if (!args.ddp_timeout) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*args.ddp_timeout * 1000));
}

// The ranks of this job; null if this process is alone.
std::shared_ptr<Communicator> joined_group(const TrainerOptions& options) {
  if (options.process_group) return options.process_group;
  if (is_initialized()) return default_group();
  adopt_launcher_environment();
  if (env_int("WORLD_SIZE").value_or(1) < 2) return nullptr;  // if RANK is missing, joining reports it
  ProcessGroupOptions how;
  how.backend = options.args.ddp_backend.value_or("");
  how.timeout = timeout_in(options.args);
  init_process_group(how);
  return default_group();
}

}  // namespace

void join_ranks(TrainerContext& context) {
  const TrainingArguments& args = context.args();
  const std::string engine = args.ddp_backend.value_or("");
  if (args.survive_lost_ranks && is_replacement()) {
    const auto timeout = timeout_in(args).value_or(default_timeout(engine));
    context.survival = std::make_shared<Survival>(std::make_unique<ElasticGroup>(engine, timeout));
    context.rank_alone = 1;
    return;
  }
  const std::shared_ptr<Communicator> group = joined_group(context.options);
  if (args.survive_lost_ranks) {
    if (!group) throw UsageError("survive_lost_ranks in a job of one rank", "Trainer", "start it with lockstep run");
    if (context.options.process_group || env_string("LOCKSTEP_TRACE")) {
      throw UsageError("survive_lost_ranks with a process_group of the program's own, or with a trace", "Trainer",
                       "leave one of them out: ranks that are lost change the group");
    }
    context.survival = std::make_shared<Survival>(std::make_unique<ElasticGroup>(group, engine));
  }
  context.group = group && group->world_size() > 1 ? group : nullptr;
}

}  // namespace lockstep
