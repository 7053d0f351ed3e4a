#pragma once

#include <map>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/parallel/features/exclusions.h"

namespace lockstep {

/// The features that a training asks for, each in the words of who asks: an option's name, a parameter's. What excludes
/// what is `exclusions()`, and is asked here alone.
class Features {
 public:
  struct Refusal {
    std::string what;  ///< "virtual shards cannot be combined with join: ranks run out of inputs one after the other"
    std::string fix;
  };

  /// @param words  default: `name_of(feature)`
  Features& add(Feature feature, std::string words = {});
  bool has(Feature feature) const { return words_.count(feature) > 0; }

  /// The first error, in the order of the table; nothing if all can be had together.
  std::optional<Refusal> refusal() const { return first(/*is_error=*/true); }
  /// Why an optimizer is not fused with these features; nothing if it is.
  std::optional<Refusal> reason_not_to_fuse() const { return first(/*is_error=*/false); }
  /// @throws Refused  with `refusal()`
  template <typename Refused = Error>
  void require_together(const std::string& where) const {
    if (const auto refused = refusal()) throw Refused(refused->what, where, refused->fix);
  }
  /// @throws Refused  with `reason_not_to_fuse()`
  template <typename Refused = Error>
  void require_fused(const std::string& where) const {
    if (const auto refused = reason_not_to_fuse()) throw Refused(refused->what, where, refused->fix);
  }

 private:
  std::optional<Refusal> first(bool is_error) const;

  std::map<Feature, std::string> words_;
};

}  // namespace lockstep
