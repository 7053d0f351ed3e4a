#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/data_digest.h"
#include "lockstep/data/dataset.h"

namespace lockstep {

/// A dataset by which ranks are compared.
struct ComparedData {
  std::string what;                                    ///< for messages: "the loader's data"
  std::shared_ptr<const Dataset> dataset;              ///< null: there is none
  std::string file{};                                  ///< for messages; empty: unknown
  nlohmann::json settings = nlohmann::json::object();  ///< by which ranks share the samples out
};

/// Compares what ranks read: the number of samples, all or some of them, and settings. It is looked at once, when this
/// object is made.
class DataAgreement {
 public:
  explicit DataAgreement(std::vector<ComparedData> data);

  /// A number of all that is compared, for a message that is sent anyway; 0: nothing is compared.
  std::int64_t number() const;

  /// The first rank that differs from `reference`.
  struct Difference {
    int rank = 0;
    std::string text;       ///< "rank 1 has other samples than rank 0; ..."
    std::string where;      ///< both ranks, with their hosts and files
    std::vector<bool> all;  ///< by rank: which ones differ
  };
  /// Collective. @return  the same on every rank; nothing: no difference is known
  std::optional<Difference> first_difference(Communicator& group, int reference = 0) const;
  /// Collective. @throws UsageError  on every rank, with the ranks and the first difference
  void require_on_all(Communicator& group) const;

 private:
  std::vector<ComparedData> data_;
  std::vector<DataDigest> digests_;
  std::string text_;
};

/// Finds the sample itself in which a rank's data differ from another one's: all ranks show each other the digests of
/// the part in which it is. Collective. @param difference  equal on all ranks
void narrow(Communicator& group, DataDifference& difference, const Dataset* own, const DataDigest& digest, int rank,
            int reference);

/// The refusal of data that differ. The launcher need not start the ranks again: they would read the same files.
[[noreturn]] void refuse_data(const std::string& what, const std::string& where, const std::string& fix);

}  // namespace lockstep
