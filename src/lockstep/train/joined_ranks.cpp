#include "lockstep/train/joined_ranks.h"

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/elastic/elastic_group.h"
#include "lockstep/elastic/elastic_ranks.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/net/worlds/enter_job.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/train/loop/gradient_engine.h"

namespace lockstep {
namespace {

std::optional<std::chrono::milliseconds> timeout_in(const TrainingArguments& args) {
  if (!args.ddp_timeout) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*args.ddp_timeout * 1000));
}

void take_group(TrainerContext& context) {
  const std::shared_ptr<Communicator>& group = context.elastic->group();
  context.group = group->world_size() > 1 ? group : nullptr;
  context.rank_alone = 0;
  context.state.is_world_process_zero = context.rank() == 0;
  context.state.is_local_process_zero = context.is_first_of_host();
}

// A rank without a slice would have nothing to do.
void survive_with(std::unique_ptr<ElasticGroup> group, TrainerContext& context) {
  group->limit(static_cast<int>(context.args().virtual_shards));
  ElasticRanks::Changes changes;
  changes.leave = [&context] { context.group = nullptr; };
  changes.enter = [&context] { take_group(context); };
  context.elastic = std::make_shared<ElasticRanks>(std::move(group), 0, std::move(changes));
}

// The ranks of this job; null if this process is alone, and no other can join it.
std::shared_ptr<Communicator> joined_group(const TrainerOptions& options) {
  if (options.process_group) return options.process_group;
  if (is_initialized()) return default_group();
  check_number_of_ranks(options.args);
  const bool others_may_join = options.args.survive_lost_ranks && env_string("LOCKSTEP_SURVIVAL_FILE");
  if (env_int("WORLD_SIZE").value_or(1) < 2 && !others_may_join) return nullptr;  // joining reports a missing RANK
  ProcessGroupOptions how;
  how.backend = options.args.ddp_backend.value_or("");
  how.timeout = timeout_in(options.args);
  init_process_group(how);
  return default_group();
}

}  // namespace

void check_number_of_ranks(const TrainingArguments& args) {
  adopt_launcher_environment();
  if (is_replacement()) return;  // WORLD_SIZE is its number and one more, and the ranks that run have been checked
  require_engine_for(static_cast<int>(env_int("WORLD_SIZE").value_or(1)), args);
}

void join_ranks(TrainerContext& context) {
  const TrainingArguments& args = context.args();
  const std::string engine = args.ddp_backend.value_or("");
  context.is_rank = env_string("LOCAL_RANK") || env_string("WORLD_SIZE");
  if (args.survive_lost_ranks && is_replacement()) {
    const auto timeout = timeout_in(args).value_or(timeout_of_job(engine));
    survive_with(std::make_unique<ElasticGroup>(engine, timeout), context);
    context.rank_alone = 1;
    return;
  }
  const std::shared_ptr<Communicator> group = joined_group(context.options);
  if (args.survive_lost_ranks) {
    if (!group)
      throw UsageError("survive_lost_ranks needs a job of several ranks", "Trainer", "start it with lockstep run");
    Features features;
    features.add(Feature::VirtualShards).add(Feature::Survival, "survive_lost_ranks");
    if (context.options.process_group) features.add(Feature::OwnGroup);
    if (env_string("LOCKSTEP_TRACE")) features.add(Feature::Trace, "a trace (LOCKSTEP_TRACE)");
    features.require_together<UsageError>("Trainer");
    survive_with(std::make_unique<ElasticGroup>(group, engine), context);
  }
  context.is_rank = context.is_rank || group;
  context.group = group && group->world_size() > 1 ? group : nullptr;
}

void leave_ranks(TrainerContext& context) noexcept {
  try {
    if (context.elastic && context.elastic->has_finished()) context.elastic->leave();
  } catch (const std::exception& error) {
    log_info("the other ranks are not told that this one has finished: {}", error.what());
  }
}

}  // namespace lockstep
