#pragma once

#include <string>
#include <vector>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// The group of some ranks of `all`, in the order given; this rank must be one of them. Its store is a part of the
/// store of `all`.
/// @param name  equal on every member, unique among the groups made from `all`
Membership subgroup(const Membership& all, const std::vector<int>& ranks, const std::string& name);

}  // namespace lockstep
