// Certificates as afo/rpc/tls.py makes them: an authority, and ends that it signed.
#pragma once

#include <memory>
#include <string>

#include "afo/psplus/tls.h"

namespace afo::psplus::testing {

class Authority {
 public:
  Authority();
  ~Authority();
  // `name`: what the certificate is for.
  TlsTexts End(const std::string& name = "job.afo") const;

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

// One for all tests.
const Authority& TheAuthority();
const TlsTexts& Secret();

}  // namespace afo::psplus::testing
