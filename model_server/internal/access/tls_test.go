package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certify writes a certificate that signs itself, and its key.
func certify(t *testing.T, certificate, key, name string) tls.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// shake connects a client and a server, and returns what the server knows of the client and the client of the server.
func shake(t *testing.T, server, client *tls.Config) (served, asked tls.ConnectionState, err error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	other, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	one, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	at, from := tls.Server(one, server), tls.Client(other, client)
	done := make(chan error, 1)
	go func() { done <- from.HandshakeContext(patient(t)) }()
	err = errors.Join(at.HandshakeContext(patient(t)), <-done)
	return at.ConnectionState(), from.ConnectionState(), err
}

func TestACertificateIsReadAgainWhenItsFilesChanged(t *testing.T) {
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	certify(t, certificate, key, "old")
	log, said := logger()
	pairs, err := watchCertificate(TLSFiles{Certificate: certificate, Key: key}, log)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	pairs.now = func() time.Time { return now }
	is := func(want string) {
		t.Helper()
		now = now.Add(checkEvery)
		if name := pairs.get().Leaf.Subject.CommonName; name != want {
			t.Errorf("the certificate is %s, not %s", name, want)
		}
	}
	is("old")
	other := filepath.Join(folder, "other.pem")
	certify(t, certificate, other, "new") // not with this key
	is("old")
	is("old")
	if logged := said.String(); strings.Count(logged, "cannot be used") != 1 {
		t.Errorf("logged: %s", logged)
	}
	if err := os.Rename(other, key); err != nil {
		t.Fatal(err)
	}
	is("new")
	write(t, certificate, "nothing")
	is("new")
}

func TestTLSServesItsCertificateToModernClients(t *testing.T) {
	folder := t.TempDir()
	files := TLSFiles{Certificate: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem")}
	pair := certify(t, files.Certificate, files.Key, "server")
	log, _ := logger()
	config, err := TLS(files, log)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	served, asked, err := shake(t, config, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	if err != nil || asked.Version != tls.VersionTLS13 || asked.PeerCertificates[0].Subject.CommonName != "server" || CertificateName(&served) != "" {
		t.Errorf("%x %v", asked.Version, err)
	}
	if _, _, err := shake(t, config, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS10,
		MaxVersion: tls.VersionTLS11}); err == nil || !strings.Contains(err.Error(), "client offered only unsupported versions") {
		t.Errorf("TLS 1.1 is served: %v", err)
	}
}

func TestWithAnAuthorityClientsNeedACertificate(t *testing.T) {
	folder := t.TempDir()
	files := TLSFiles{Certificate: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem"), ClientCA: filepath.Join(folder, "ca.pem")}
	certify(t, files.Certificate, files.Key, "server")
	known := certify(t, files.ClientCA, filepath.Join(folder, "client.key"), "ann")
	stranger := certify(t, filepath.Join(folder, "stranger.pem"), filepath.Join(folder, "stranger.key"), "bob")
	log, _ := logger()
	config, err := TLS(files, log)
	if err != nil {
		t.Fatal(err)
	}
	served, _, err := shake(t, config, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{known}})
	if err != nil || CertificateName(&served) != "ann" {
		t.Errorf("%q %v", CertificateName(&served), err)
	}
	for _, certificates := range [][]tls.Certificate{nil, {stranger}} {
		if _, _, err := shake(t, config, &tls.Config{InsecureSkipVerify: true, Certificates: certificates}); err == nil {
			t.Errorf("a client with %d certificates is served", len(certificates))
		}
	}
}

func TestTLSFilesThatAreWrongAreNamed(t *testing.T) {
	folder := t.TempDir()
	certificate, key, broken := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"), filepath.Join(folder, "broken.pem")
	certify(t, certificate, key, "server")
	write(t, broken, "nothing")
	log, _ := logger()
	for want, files := range map[string]TLSFiles{
		"both needed":    {Certificate: certificate},
		broken:           {Certificate: broken, Key: key},
		folder + "/none": {Certificate: certificate, Key: folder + "/none"},
		"client_ca: " + broken + " has no certificate": {Certificate: certificate, Key: key, ClientCA: broken},
		"client_ca: open": {Certificate: certificate, Key: key, ClientCA: folder + "/none"},
	} {
		if _, err := TLS(files, log); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
