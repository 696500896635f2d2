#include "afo/psplus/tls.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "support.h"

namespace afo::psplus::testing {
namespace {

std::shared_ptr<TlsContext> ContextOf(TlsEnd end, const TlsTexts& texts) {
  TlsContext::Made made = TlsContext::Of(end, texts);
  REQUIRE(made.wrong == "");
  return made.context;
}

// One end with its buffers.
struct End {
  End(TlsEnd end, const TlsTexts& texts, std::uint64_t records_a_key = TlsSession::kRecordsAKey)
      : block(1 << 20), output{block.data(), block.size(), 0, 0},
        session(ContextOf(end, texts), &input, &output, records_a_key) {}

  // What the other end sent becomes what comes in here.
  std::string Sent() {
    std::string bytes(output.block + output.begin, output.size());
    output.begin = output.end = 0;
    return bytes;
  }

  std::vector<char> block;
  TlsInput input;
  TlsOutput output;
  TlsSession session;
};

// Until neither has anything to say.
TlsSession::State Shake(End* client, End* server) {
  TlsSession::State at_client = client->session.Handshake(), at_server = TlsSession::State::kWants;
  for (int i = 0; i < 4; ++i) {
    const std::string to_server = client->Sent();
    server->input = {to_server.data(), to_server.size()};
    at_server = server->session.Handshake();
    const std::string to_client = server->Sent();
    client->input = {to_client.data(), to_client.size()};
    if (at_client != TlsSession::State::kBroken) at_client = client->session.Handshake();
  }
  return at_client == TlsSession::State::kDone ? at_server : at_client;
}

TEST_CASE("what one end encrypts the other decrypts, with keys that change in between") {
  End client(TlsEnd::kClient, TheAuthority().End(), 3), server(TlsEnd::kServer, TheAuthority().End(), 3);
  REQUIRE(Shake(&client, &server) == TlsSession::State::kDone);
  for (int i = 0; i < 20; ++i) {
    const std::string plain(static_cast<std::size_t>(i) * 800, static_cast<char>('a' + i));
    if (plain.empty()) continue;
    REQUIRE(client.session.Write(plain.data(), plain.size()) == TlsSession::State::kDone);
    const std::string encrypted = client.Sent();
    CHECK(encrypted.size() <= plain.size() + 256);
    CHECK(encrypted.find(plain) == std::string::npos);
    server.input = {encrypted.data(), encrypted.size()};
    std::string got(plain.size(), '\0');
    const TlsSession::Step step = server.session.Read(got.data(), got.size());
    CHECK(step.state == TlsSession::State::kDone);
    CHECK(step.bytes == plain.size());
    CHECK(got == plain);
    CHECK(server.session.Read(got.data(), got.size()).state == TlsSession::State::kWants);
  }
}

TEST_CASE("a changed byte breaks a session") {
  End client(TlsEnd::kClient, Secret()), server(TlsEnd::kServer, Secret());
  REQUIRE(Shake(&client, &server) == TlsSession::State::kDone);
  REQUIRE(client.session.Write("gradient", 8) == TlsSession::State::kDone);
  std::string encrypted = client.Sent();
  encrypted[10] = static_cast<char>(encrypted[10] ^ 1);
  server.input = {encrypted.data(), encrypted.size()};
  char got[8];
  CHECK(server.session.Read(got, sizeof(got)).state == TlsSession::State::kBroken);
  CHECK(server.session.why() != "");
}

TEST_CASE("ends of other authorities and other names are refused") {
  const Authority other;
  End client(TlsEnd::kClient, Secret());
  End stranger(TlsEnd::kServer, other.End());
  CHECK(Shake(&client, &stranger) == TlsSession::State::kBroken);
  CHECK(client.session.why() == "the peer's certificate is refused: certificate signature failure");

  // It trusts the server, but presents what another authority signed.
  TlsTexts mixed = other.End();
  mixed.authority = Secret().authority;
  End server(TlsEnd::kServer, Secret()), intruder(TlsEnd::kClient, mixed);
  CHECK(Shake(&intruder, &server) == TlsSession::State::kBroken);
  CHECK(server.session.why() == "the peer's certificate is refused: certificate signature failure");
}

TEST_CASE("a client asks for the job's name") {
  End client(TlsEnd::kClient, Secret());
  End other(TlsEnd::kServer, TheAuthority().End("another.afo"));
  CHECK(Shake(&client, &other) == TlsSession::State::kBroken);
  CHECK(client.session.why().find("ostname mismatch") != std::string::npos);
}

TEST_CASE("texts that are no certificates are refused, without a word of them") {
  const TlsTexts good = Secret(), other = TheAuthority().End();
  CHECK(TlsContext::Of(TlsEnd::kServer, {"x", good.key, good.certificate}).wrong ==
        "the authority is no certificate in PEM");
  CHECK(TlsContext::Of(TlsEnd::kServer, {good.authority, "x", good.certificate}).wrong == "the key is none in PEM");
  CHECK(TlsContext::Of(TlsEnd::kServer, {good.authority, good.key, "x"}).wrong == "the certificate is none in PEM");
  CHECK(TlsContext::Of(TlsEnd::kServer, {good.authority, other.key, good.certificate}).wrong ==
        "the key is none of the certificate");
}

}  // namespace
}  // namespace afo::psplus::testing
