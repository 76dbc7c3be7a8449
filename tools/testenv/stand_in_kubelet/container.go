package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// A process that runs from the beginning, whose output is its log.
type container struct {
	name, command string

	process *exec.Cmd
	stdin   io.WriteCloser
	path    string

	mutex    sync.Mutex
	changed  *sync.Cond
	written  int64
	ended    bool
	attached map[*attachment]bool
}

type attachment struct{ out, errors io.Writer }

// One of a container's two outputs.
type output struct {
	container *container
	file      *os.File
	isError   bool
}

func (o *output) Write(bytes []byte) (int, error) {
	c := o.container
	c.mutex.Lock()
	defer c.mutex.Unlock()
	n, err := o.file.Write(bytes)
	c.written += int64(n)
	c.changed.Broadcast()
	for one := range c.attached {
		writer := one.out
		if o.isError {
			writer = one.errors
		}
		if writer != nil {
			if _, err := writer.Write(bytes); err != nil {
				delete(c.attached, one)
			}
		}
	}
	return n, err
}

func (c *container) start(folder string) error {
	c.changed = sync.NewCond(&c.mutex)
	c.attached = map[*attachment]bool{}
	c.path = filepath.Join(folder, c.name+".log")
	file, err := os.Create(c.path)
	if err != nil {
		return err
	}
	c.process = exec.Command("sh", "-c", c.command)
	c.process.Stdout = &output{c, file, false}
	c.process.Stderr = &output{c, file, true}
	if c.stdin, err = c.process.StdinPipe(); err != nil {
		return err
	}
	if err = c.process.Start(); err != nil {
		return err
	}
	go func() {
		_ = c.process.Wait()
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.ended = true
		c.changed.Broadcast()
	}()
	return nil
}

// Until the process ends, of whose exit code runtimes say nothing here.
func (c *container) attach(in io.Reader, out, errors io.Writer) error {
	if in != nil {
		go func() {
			_, _ = io.Copy(c.stdin, in)
			c.stdin.Close()
		}()
	}
	one := &attachment{out, errors}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.attached[one] = true
	for !c.ended {
		c.changed.Wait()
	}
	delete(c.attached, one)
	return nil
}

func (c *container) serveLog(w http.ResponseWriter, follow bool) {
	file, err := os.Open(c.path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer file.Close()
	flusher := w.(http.Flusher)
	for sent := int64(0); ; {
		c.mutex.Lock()
		for follow && !c.ended && c.written == sent {
			c.changed.Wait()
		}
		there, over := c.written, !follow || c.ended
		c.mutex.Unlock()
		n, err := io.CopyN(w, file, there-sent)
		sent += n
		if err != nil || over && sent == there {
			return
		}
		flusher.Flush()
	}
}
