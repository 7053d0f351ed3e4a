#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

/// Expects that `call` throws an Error whose whole text contains `part`.
inline void expect_error(const std::string& part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error that says: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "expected: " << part << "\ncame: " << error.what();
  }
}

}  // namespace lockstep
