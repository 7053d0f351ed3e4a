#include "lockstep/net/worlds/enter_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/store/job_store.h"
#include "lockstep/net/store/store_client.h"
#include "lockstep/net/store_errors.h"
#include "lockstep/net/worlds/moving_store.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kTryOneAddress{1000};

struct Entered {
  std::shared_ptr<StoreClient> client;
  int round = 0;
};

// The store may have moved since this process was started, and may move while it looks for it or enters it.
Entered enter_store(const std::string& first, const std::optional<std::string>& file, const JoinRequest& request,
                    Deadline deadline, const StoreClientOptions& options) {
  for (;;) {
    const auto newest = file ? read_store_move(*file) : std::nullopt;
    const Deadline until = file ? Deadline::after(std::min(kTryOneAddress, deadline.remaining())) : deadline;
    try {
      auto client = std::make_shared<StoreClient>(SocketAddress::parse(newest ? newest->address : first),
                                                  secret_from_environment(), until, options);
      const int round = client->enter(request, deadline).round;
      return {std::move(client), round};
    } catch (const TimeoutError&) {
      if (deadline.passed()) throw;
    } catch (const StoreLostError& error) {
      if (!file || deadline.passed()) throw;
      log_info("the store was lost before this process had entered it: {}", error.happened());
    }
  }
}

}  // namespace

bool is_replacement() { return env_string("LOCKSTEP_MEMBER").has_value(); }

JobEntrance enter_job(Deadline deadline) {
  const auto member = env_int("LOCKSTEP_MEMBER");
  const auto address = env_string("LOCKSTEP_STORE");
  if (!member || !address) {
    throw Error("LOCKSTEP_MEMBER or LOCKSTEP_STORE is not set", "a process that takes a lost rank's place",
                "let lockstep run start it");
  }
  JoinRequest request;
  request.generation = env_int("LOCKSTEP_GENERATION").value_or(0);
  request.self.global_rank = static_cast<int>(*member);
  request.self.host = host_name();
  request.self.host_id = host_id();
  request.self.pid = ::getpid();
  request.self.local_rank = static_cast<int>(env_int("LOCAL_RANK").value_or(0));
  StoreClientOptions options;
  options.where = fmt::format("rank {} of the job on {}", *member, request.self.host);
  const auto file = env_string("LOCKSTEP_STORE_FILE");
  Entered entered = enter_store(*address, file, request, deadline, options);
  record_failures_as(request.self.global_rank);
  const std::string prefix = fmt::format("g{}.r{}/default", request.generation, entered.round);
  std::shared_ptr<Store> store = entered.client;
  if (file) store = std::make_shared<MovingStore>(std::move(entered.client), request, entered.round, *file);
  return {request.self, std::make_shared<JobStore>(nullptr, std::move(store), prefix, nullptr)};
}

}  // namespace lockstep
