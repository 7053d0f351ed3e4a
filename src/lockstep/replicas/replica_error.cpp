#include "lockstep/replicas/replica_error.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

namespace lockstep {
namespace {

std::string with_replica(const Error& error, const std::string& where) {
  return error.where().empty() ? where : error.where() + "; " + where;
}

}  // namespace

void rethrow_from_replica(const std::exception_ptr& failure, const char* action, std::size_t replica,
                          const ReplicaDevice& device) {
  const std::string where = fmt::format("{} in replica {} on device {}", action, replica, device.name());
  try {
    std::rethrow_exception(failure);
  } catch (const TimeoutError& error) {
    throw TimeoutError(error.happened(), with_replica(error, where), error.fix());
  } catch (const UsageError& error) {
    throw UsageError(error.happened(), with_replica(error, where), error.fix());
  } catch (const ReplicaError& error) {
    throw ReplicaError(error.happened(), with_replica(error, where), error.cause());
  } catch (const Error& error) {
    throw Error(error.happened(), with_replica(error, where), error.fix());
  } catch (c10::Error& error) {
    error.add_context(where);
    throw;
  } catch (const std::exception& error) {
    throw ReplicaError(error.what(), where, failure);
  } catch (...) {
    throw ReplicaError("an exception of unknown type", where, failure);
  }
}

}  // namespace lockstep
