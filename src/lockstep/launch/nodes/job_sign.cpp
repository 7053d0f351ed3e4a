#include "lockstep/launch/nodes/job_sign.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/launch/launcher_name.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {
namespace {

constexpr const char* kSignKey = "launcher/job";
// The serving launcher signs right after it listens.
constexpr std::chrono::seconds kSignTimeout{10};
constexpr std::chrono::seconds kLookTimeout{2};
constexpr const char* kOwnEndpoint = "give each job an endpoint of its own: --rdzv-endpoint, or --master-port";

std::string who_listens(const SocketAddress& address, const std::string& secret) {
  try {
    StoreClient store(address, secret, Deadline::after(kLookTimeout));
    const auto sign = store.try_get(kSignKey);
    store.finish(Deadline::after(kLookTimeout));
    if (!sign) return "a store that is not a launcher's is served there";
    const HostEntry job = parse_host_entry(*sign);
    return fmt::format("job '{}' ({}) is served there, by the launcher on {}", job.run_id, job.program, job.label());
  } catch (const Error& error) {
    return error.happened();
  }
}

}  // namespace

std::unique_ptr<StoreServer> serve_job(const SocketAddress& address, const std::string& secret) {
  try {
    return std::make_unique<StoreServer>(address, secret);
  } catch (const AddressInUseError& error) {
    throw AddressInUseError(fmt::format("{}: {}", error.happened(), who_listens(address, secret)),
                            at_launcher("rendezvous"),
                            fmt::format("{}; or end the other one. `ss -ltnp 'sport = :{}'` shows its process",
                                        kOwnEndpoint, address.port));
  }
}

void sign_store(StoreClient& store, const HostEntry& self) { store.set(kSignKey, nlohmann::json(self).dump()); }

HostEntry check_sign(StoreClient& store, const HostEntry& self) {
  const std::string where = at_launcher("rendezvous at " + store.address().text());
  HostEntry job;
  try {
    job = parse_host_entry(store.get(kSignKey, Deadline::after(kSignTimeout)));
  } catch (const TimeoutError&) {
    throw Error("the store at " + store.address().text() + " is not a launcher's, or one's of another version", where,
                std::string(kOwnEndpoint) + "; run all hosts with one version of Lockstep");
  }
  if (const auto reason = other_job(job, self)) {
    throw Error(fmt::format("at {} another job is served, by the launcher on {}: {}", store.address().text(),
                            job.label(), *reason),
                where, kOwnEndpoint);
  }
  return job;
}

}  // namespace lockstep
