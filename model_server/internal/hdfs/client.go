package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"

	colinmarc "github.com/colinmarc/hdfs/v2"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	connectTime = 10 * time.Second
	// silence is how long is waited for the next bytes of a NameNode or DataNode.
	silence = 30 * time.Second
	// readTries are for one read of a block whose DataNode fails: there are others with the block.
	readTries = 3
)

// Client reads HDFS by its own protocol. It connects when it is used, and anew after a connection failed.
type Client struct {
	// options are asked for each connection: tickets and configurations are renewed.
	options func() (colinmarc.ClientOptions, error)
	client  *colinmarc.Client
}

// List implements FileSystem.
func (c *Client) List(ctx context.Context, directory string, most int) ([]Entry, error) {
	var found []Entry
	err := c.do(ctx, func(client *colinmarc.Client) (err error) {
		found, err = list(client, directory, most)
		return err
	})
	return found, err
}

func list(client *colinmarc.Client, directory string, most int) ([]Entry, error) {
	opened, err := client.Open(directory)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if !opened.Stat().IsDir() {
		return nil, fmt.Errorf("%s is no directory", directory)
	}
	infos, err := opened.Readdir(most + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(infos) > most {
		return nil, fmt.Errorf("%s has more entries than are looked at (%d in one directory or version); remove old ones", directory, most)
	}
	found := make([]Entry, 0, len(infos))
	for _, each := range infos {
		entry := Entry{Name: each.Name(), Size: each.Size(), Modified: each.ModTime().UnixMilli(), Directory: each.IsDir()}
		if status, ok := each.Sys().(*colinmarc.FileStatus); ok {
			entry.Refused = refused(status)
		}
		found = append(found, entry)
	}
	return found, nil
}

// refused says why a file cannot be read by this client.
func refused(of *colinmarc.FileStatus) string {
	switch {
	case of.GetFileType() == isLink:
		return "is a link; put what it points to in its place"
	case of.GetFileEncryptionInfo() != nil:
		return "lies in an encryption zone of HDFS, whose keys this server does not ask for; copy the model out of it"
	case isErasureCoded(of):
		return "is erasure-coded, which this server cannot read; copy the model to a directory with replication"
	default:
		return ""
	}
}

const (
	// ecPolicy is the number of a field of HdfsFileStatusProto that the library does not know.
	ecPolicy = 17
	// Of its FileType.
	isDirectory = 1
	isLink      = 3
)

// isErasureCoded: of such a file the library would read the first of several interleaved parts.
func isErasureCoded(of *colinmarc.FileStatus) bool {
	if of.GetFileType() == isDirectory {
		return false // the policy is for files to come
	}
	for unknown := of.ProtoReflect().GetUnknown(); len(unknown) > 0; {
		number, _, length := protowire.ConsumeField(unknown)
		if length < 0 {
			return false
		}
		if number == ecPolicy {
			return true
		}
		unknown = unknown[length:]
	}
	return false
}

// Open implements FileSystem.
func (c *Client) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	var found *colinmarc.FileReader
	err := c.do(ctx, func(client *colinmarc.Client) (err error) {
		found, err = client.Open(file)
		return err
	})
	if err != nil {
		return nil, err
	}
	if reason := refused(found.Stat().Sys().(*colinmarc.FileStatus)); reason != "" {
		found.Close()
		return nil, fmt.Errorf("%s %s", file, reason)
	}
	return &reader{found}, nil
}

// reader reads on from another DataNode where one fails.
type reader struct{ *colinmarc.FileReader }

func (r *reader) Read(into []byte) (int, error) {
	for try := 1; ; try++ {
		read, err := r.FileReader.Read(into)
		if err == nil || err == io.EOF || read > 0 || try == readTries {
			return read, err
		}
	}
}

// do calls the cluster; once more by a new connection where the one there is has failed meanwhile.
func (c *Client) do(ctx context.Context, call func(*colinmarc.Client) error) error {
	for fresh := c.client == nil; ; fresh = true {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.connect(); err != nil {
			return err
		}
		err := call(c.client)
		if err == nil || answered(err) {
			return err
		}
		_ = c.client.Close()
		c.client = nil
		if fresh {
			return err
		}
	}
}

func (c *Client) connect() error {
	if c.client != nil {
		return nil
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	options.NamenodeDialFunc, options.DatanodeDialFunc = dial, dial
	c.client, err = colinmarc.NewClient(options)
	if err != nil {
		return fmt.Errorf("the NameNode at %s cannot be asked: %w", strings.Join(options.Addresses, " or "), err)
	}
	return nil
}

// answered says whether an error is the NameNode's answer, after which the connection can be used.
func answered(err error) bool {
	var remote colinmarc.Error
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) || errors.As(err, &remote)
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	made, err := (&net.Dialer{Timeout: connectTime}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return impatient{made, silence}, nil
}

// impatient is a connection whose other side must not be silent for long: the client has no times of its own.
type impatient struct {
	net.Conn
	silence time.Duration
}

func (i impatient) Read(into []byte) (int, error) {
	_ = i.Conn.SetReadDeadline(time.Now().Add(i.silence))
	return i.Conn.Read(into)
}

func (i impatient) Write(text []byte) (int, error) {
	_ = i.Conn.SetWriteDeadline(time.Now().Add(i.silence))
	return i.Conn.Write(text)
}
